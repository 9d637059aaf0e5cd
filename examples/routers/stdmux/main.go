// Stdmux limits the rate of each client of an http.ServeMux, and the concurrency of
// each route.
//
//	go run -C examples ./routers/stdmux
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8083/hello/you; done
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/keyed"
)

func main() {
	perClient, err := keyed.New[netip.Addr](gcra.Per(60, time.Minute, 5), keyed.Config{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Config{
		Rules:    []httplimit.Rule{httplimit.PerKey("per-client", perClient, httplimit.Address())},
		PerClass: httplimit.Auto,
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", hello)
	s := http.Server{Addr: "127.0.0.1:8083", ReadHeaderTimeout: 5 * time.Second, Handler: m.Handler(mux)}
	log.Fatal(s.ListenAndServe())
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, %s\n", r.PathValue("name"))
}
