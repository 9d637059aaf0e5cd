// Stdmux limits the rate of each client of an http.ServeMux, and the concurrency of each route.
//
//	go run -C examples ./routers/stdmux
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8083/hello/you; done
package main

import (
	"fmt"
	"net/http"

	"github.com/weir-go/weir/examples/routers/internal/site"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", hello)
	site.Serve(site.Middleware().Handler(mux))
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, %s\n", r.PathValue("name"))
}
