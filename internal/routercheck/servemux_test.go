package routercheck

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/weir-go/weir/httplimit"
)

// Around the mux: the Middleware asks it which route a request will take.
func TestAroundTheMux(t *testing.T) {
	Run(t, Router{Hello: "GET /hello/{name}", Hook: "GET /hook",
		New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
			m := Middleware(t, cfg)
			mux := http.NewServeMux()
			mux.HandleFunc("GET /hello/{name}", hello)
			mux.HandleFunc("GET /hook", hook)
			return m.Handler(mux), m
		}})
}

// Around handlers: the mux has told the route already.
func TestAroundHandlers(t *testing.T) {
	Run(t, Router{Hello: "GET /hello/{name}", Hook: "GET /hook",
		New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
			m := Middleware(t, cfg)
			mux := http.NewServeMux()
			mux.Handle("GET /hello/{name}", m.Handler(http.HandlerFunc(hello)))
			mux.Handle("GET /hook", m.Handler(hook))
			return mux, m
		}})
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, %s\n", r.PathValue("name"))
}
