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
	"log"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

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
		Class:    route,
	})
	if err != nil {
		log.Fatal(err)
	}
	router := chi.NewRouter()
	router.Use(middleware.Recoverer, m.Handler)
	router.Get("/hello/{name}", hello)
	s := http.Server{Addr: "127.0.0.1:8083", ReadHeaderTimeout: 5 * time.Second, Handler: router}
	log.Fatal(s.ListenAndServe())
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
