// Chi limits the rate of each client of a chi router, and the concurrency of each route.
//
//	go run -C examples ./routers/chi
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8083/hello/you; done
package main

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/examples/routers/internal/site"
	"github.com/weir-go/weir/router/weirchi"
)

func main() {
	router := chi.NewRouter()
	router.Use(middleware.Recoverer, weirchi.Middleware(site.Middleware()))
	router.Get("/hello/{name}", hello)
	site.Serve(router)
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, %s\n", r.PathValue("name"))
}
