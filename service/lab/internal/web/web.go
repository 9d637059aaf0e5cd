// Package web has the page of weirlab demo and its assets.
package web

import (
	"embed"
	"net/http"

	"github.com/weir-go/weir/service/internal/web"
)

//go:embed assets
var assets embed.FS

// Handler serves the page at / and its assets beside it. It must be mounted at
// the root; the page expects the demonstration's API under /api/.
func Handler() http.Handler { return web.Page(assets) }
