package adminapi

import (
	"embed"
	"net/http"

	"github.com/weir-go/weir/service/internal/web"
)

//go:embed assets
var assets embed.FS

// policy lets the page load only what is served here.
const policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// servePage serves the page, and the assets that it shares with weir demo.
func servePage(mux *http.ServeMux) {
	files, err := assets.ReadDir("assets")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	page := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", policy)
			http.ServeFileFS(w, r, assets, "assets/"+name)
		}
	}
	for _, f := range files {
		mux.Handle("GET /"+f.Name(), page(f.Name()))
	}
	mux.Handle("GET /{$}", page("page.html"))
	mux.Handle("GET /icon.svg", web.Handler())
	mux.Handle("GET /legend.js", web.Handler())
	mux.Handle("GET /uplot/", web.Handler())
}
