// Chi keeps the responses of an expensive route of a chi server, and makes them once for all
// clients that wait.
//
//	go run -C examples ./caching/chi
//
// and, while it runs:
//
//	for i in 1 2 3; do curl -i http://127.0.0.1:8089/calculate/1 & done; wait
package main

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/examples/caching/internal/site"
)

func main() {
	site.Serve(site.InFront(router(site.Calculate), site.Cache()))
}

// router calls calculate for GET /calculate/{x}.
func router(calculate func(x string) (string, error)) http.Handler {
	router := chi.NewRouter()
	router.Use(middleware.Recoverer)
	router.Get("/calculate/{x}", func(w http.ResponseWriter, r *http.Request) {
		result, err := calculate(chi.URLParam(r, "x"))
		if err != nil {
			http.Error(w, fmt.Sprintf("%s: %v", chi.URLParam(r, "x"), err), http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, "%s: %s", chi.URLParam(r, "x"), result)
	})
	router.Get("/me", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "secret"})
		fmt.Fprint(w, "me")
	})
	return router
}
