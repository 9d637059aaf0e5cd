package main

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/examples/routers/internal/check"
	"github.com/weir-go/weir/httplimit"
)

// By Use, before chi looks for the route.
func TestUse(t *testing.T) {
	check.Run(t, check.Router{Hello: "/hello/{name}", Hook: "/hook", Recovers: true,
		New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
			cfg.Class = route
			m := check.Middleware(t, cfg)
			router := chi.NewRouter()
			router.Use(middleware.Recoverer, m.Handler)
			router.Get("/hello/{name}", hello)
			router.Get("/hook", hook)
			return router, m
		}})
}

// By With, once chi has found it.
func TestWith(t *testing.T) {
	check.Run(t, check.Router{Hello: "/hello/{name}", Hook: "/hook", Recovers: true,
		New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
			m := check.Middleware(t, cfg)
			router := chi.NewRouter()
			router.Use(middleware.Recoverer)
			router.With(m.Handler).Get("/hello/{name}", hello)
			router.With(m.Handler).Get("/hook", hook)
			return router, m
		}})
}

// In routers that are mounted, by either.
func TestMounted(t *testing.T) {
	for name, use := range map[string]bool{"Use": true, "With": false} {
		t.Run(name, func(t *testing.T) {
			check.Run(t, check.Router{Hello: "/hello/{name}", Hook: "/hook", Recovers: true,
				New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
					if use {
						cfg.Class = route
					}
					m := check.Middleware(t, cfg)
					router := chi.NewRouter()
					router.Use(middleware.Recoverer)
					router.Route("/hello", func(r chi.Router) {
						mount(r, use, m).Get("/{name}", hello)
					})
					router.Route("/hook", func(r chi.Router) {
						mount(r, use, m).Get("/", hook)
					})
					return router, m
				}})
		})
	}
}

func mount(r chi.Router, use bool, m *httplimit.Middleware) chi.Router {
	if use {
		r.Use(m.Handler)
		return r
	}
	return r.With(m.Handler)
}
