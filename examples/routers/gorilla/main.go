// Gorilla limits the rate of each client of a router of gorilla/mux, and the concurrency of each route.
//
//	go run -C examples ./routers/gorilla
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8083/hello/you; done
package main

import (
	"fmt"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/weir-go/weir/examples/routers/internal/site"
	"github.com/weir-go/weir/router/weirgorilla"
)

func main() {
	router := mux.NewRouter()
	router.Use(weirgorilla.Middleware(site.Middleware()))
	router.HandleFunc("/hello/{name}", hello).Methods("GET")
	site.Serve(router)
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, %s\n", mux.Vars(r)["name"])
}
