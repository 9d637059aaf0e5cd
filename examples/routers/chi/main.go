// Chi limits the rate of each client of a chi router, and the concurrency of each
// route.
//
//	go run -C examples ./routers/chi
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8083/hello/you; done
package main

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/examples/routers/internal/site"
)

func main() {
	m := site.Middleware(route)
	router := chi.NewRouter()
	router.Use(middleware.Recoverer, m.Handler)
	router.Get("/hello/{name}", hello)
	site.Serve(router)
}

// route returns the pattern of the route for a request. Middlewares of Use need it,
// because they run before chi finds the route; for those of With, it is r.Pattern.
func route(r *http.Request) string {
	routes := chi.RouteContext(r.Context()).Routes
	return routes.Find(chi.NewRouteContext(), r.Method, cmp.Or(r.URL.RawPath, r.URL.Path))
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, %s\n", r.PathValue("name"))
}
