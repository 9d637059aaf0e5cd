package main

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/examples/routers/internal/check"
	"github.com/weir-go/weir/httplimit"
)

// Around the mux: the Middleware asks it which route a request will take.
func TestAroundTheMux(t *testing.T) {
	check.Run(t, check.Router{Hello: "GET /hello/{name}", Hook: "GET /hook",
		New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
			m := check.Middleware(t, cfg)
			mux := http.NewServeMux()
			mux.HandleFunc("GET /hello/{name}", hello)
			mux.HandleFunc("GET /hook", hook)
			return m.Handler(mux), m
		}})
}

// Around handlers: the mux has told the route already.
func TestAroundHandlers(t *testing.T) {
	check.Run(t, check.Router{Hello: "GET /hello/{name}", Hook: "GET /hook",
		New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
			m := check.Middleware(t, cfg)
			mux := http.NewServeMux()
			mux.Handle("GET /hello/{name}", m.Handler(http.HandlerFunc(hello)))
			mux.Handle("GET /hook", m.Handler(hook))
			return mux, m
		}})
}
