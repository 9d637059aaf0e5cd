// Package web serves pages, and has the assets that several of them share: the icon and what plots need. The pages
// work without a network.
package web

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed assets
var shared embed.FS

// policy lets a page load only its own assets.
const policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the shared assets.
func Handler() http.Handler { return Page(shared) }

// Page serves the files in the directory assets: a page, index.html, at / and its assets beside it, and the shared assets. It
// must be mounted at the root.
func Page(assets fs.FS) http.Handler {
	var roots []fs.FS
	for _, files := range []fs.FS{assets, shared} {
		root, err := fs.Sub(files, "assets")
		if err != nil {
			panic(err) // the path is valid
		}
		roots = append(roots, root)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only to be read", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		for _, root := range roots {
			if info, err := fs.Stat(root, name); err == nil && !info.IsDir() { // directories are not listed
				http.ServeFileFS(w, r, root, name)
				return
			}
		}
		http.NotFound(w, r)
	})
}
