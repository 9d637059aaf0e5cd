package weirchi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/routercheck"
)

// routers returns a chi router with the routes of a check.
var routers = map[string]func(mw func(http.Handler) http.Handler, hook http.HandlerFunc) http.Handler{
	"Use": func(mw func(http.Handler) http.Handler, hook http.HandlerFunc) http.Handler {
		router := chi.NewRouter()
		router.Use(middleware.Recoverer, mw)
		router.Get("/hello/{name}", hello)
		router.Get("/hook", hook)
		return router
	},
	"With": func(mw func(http.Handler) http.Handler, hook http.HandlerFunc) http.Handler {
		router := chi.NewRouter()
		router.Use(middleware.Recoverer)
		router.With(mw).Get("/hello/{name}", hello)
		router.With(mw).Get("/hook", hook)
		return router
	},
	"Use in mounted routers": func(mw func(http.Handler) http.Handler, hook http.HandlerFunc) http.Handler {
		router := chi.NewRouter()
		router.Use(middleware.Recoverer)
		router.Route("/hello", func(r chi.Router) {
			r.Use(mw)
			r.Get("/{name}", hello)
		})
		router.Route("/hook", func(r chi.Router) {
			r.Use(mw)
			r.Get("/", hook)
		})
		return router
	},
	"With in mounted routers": func(mw func(http.Handler) http.Handler, hook http.HandlerFunc) http.Handler {
		router := chi.NewRouter()
		router.Use(middleware.Recoverer)
		router.Route("/hello", func(r chi.Router) { r.With(mw).Get("/{name}", hello) })
		router.Route("/hook", func(r chi.Router) { r.With(mw).Get("/", hook) })
		return router
	},
	"in front of a copy of the request": func(mw func(http.Handler) http.Handler, hook http.HandlerFunc) http.Handler {
		router := chi.NewRouter()
		router.Use(middleware.Recoverer, mw, copies, middleware.Timeout(time.Minute))
		router.Get("/hello/{name}", hello)
		router.Get("/hook", hook)
		return router
	},
}

func TestRouters(t *testing.T) {
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			routercheck.Run(t, routercheck.Router{Hello: "GET /hello/{name}", Hook: "GET /hook", Recovers: true,
				New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
					m := routercheck.Middleware(t, cfg)
					return router(Middleware(m), hook), m
				}})
		})
	}
}

type key struct{}

// copies passes a copy of the request on, as tracing does.
func copies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, 1)))
	})
}

func TestClasses(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := chi.NewRouter()
	router.Use(middleware.StripSlashes, middleware.GetHead, Middleware(m), middleware.Compress(5))
	router.Get("/", hello)
	router.Get("/users/{id:[0-9]+}", hello)
	router.Post("/users/{id:[0-9]+}", hello)
	router.Handle("/any/*", http.HandlerFunc(hello))
	router.Route("/{tenant}", func(r chi.Router) {
		r.Get("/", hello)
		r.Route("/orders", func(r chi.Router) {
			r.Get("/", hello)
			r.Get("/{id}", hello)
		})
		r.Group(func(r chi.Router) {
			r.Use(copies)
			r.Get("/files/*", hello)
		})
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/other/a", hello)
	router.Mount("/other", mux)
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "/", "GET /"},
		{"GET", "/users/1", "GET /users/{id:[0-9]+}"},
		{"GET", "/users/1/", "GET /users/{id:[0-9]+}"}, // by StripSlashes
		{"HEAD", "/users/1", "GET /users/{id:[0-9]+}"}, // by GetHead
		{"POST", "/users/1", "POST /users/{id:[0-9]+}"},
		{"PUT", "/any/a/b", "PUT /any/*"},
		{"GET", "/acme", "GET /{tenant}"},
		{"GET", "/acme/orders", "GET /{tenant}/orders"},
		{"GET", "/acme/orders/1", "GET /{tenant}/orders/{id}"},
		{"GET", "/acme/files/a/b", "GET /{tenant}/files/*"},
		{"GET", "/other/a", "GET /other/*"},
		{"GET", "/acme/nothing", "/"},
		{"DELETE", "/users/1", "/"},
		{"MADEUP", "/users/1", "/"},
	} {
		routercheck.Class(t, router, m, tt.method, tt.url, tt.want)
	}
}

// A middleware in front of the root router's Use has changed the path: the class is
// that of the mount, unless Middleware is in the root router, too.
func TestChangedPathsInMountedRouters(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := chi.NewRouter()
	router.Use(middleware.StripSlashes)
	router.Route("/users", func(r chi.Router) {
		r.Use(Middleware(m))
		r.Get("/{id}", hello)
	})
	routercheck.Class(t, router, m, "GET", "/users/1", "GET /users/{id}")
	routercheck.Class(t, router, m, "GET", "/users/1/", "GET /users/*")
}

// What a NotFound handler answers is a class as well.
func TestNotFoundHandler(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := chi.NewRouter()
	router.Use(Middleware(m))
	router.Get("/api", hello)
	router.NotFound(hello) // as for a single-page application
	routercheck.Class(t, router, m, "GET", "/any/page", "/")
	routercheck.Class(t, router, m, "GET", "/api", "GET /api")
}

// Behind other handlers, and with a part of the path removed.
func TestBehindOtherHandlers(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := chi.NewRouter()
	router.Use(Middleware(m))
	router.Get("/users/{id}", hello)
	mux := http.NewServeMux()
	mux.Handle("/v1/", http.StripPrefix("/v1", copies(router)))
	routercheck.Class(t, mux, m, "GET", "/v1/users/1", "GET /users/{id}")
	routercheck.Class(t, mux, m, "GET", "/v1/users/a%2Fb", "GET /users/{id}")
}

// A test of a handler may make the context of the route by itself, without a router.
func TestContextWithoutARouter(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	ctx := context.WithValue(t.Context(), chi.RouteCtxKey, chi.NewRouteContext())
	h := Middleware(m)(http.HandlerFunc(hello))
	for _, ctx := range []context.Context{ctx, t.Context()} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/users/1", nil).WithContext(ctx))
		if w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// Config.Class reads the route.
func TestOwnClass(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto,
		Class: func(r *http.Request) string { return r.Host + ": " + r.Pattern }})
	router := chi.NewRouter()
	router.Use(Middleware(m))
	router.Get("/users/{id}", hello)
	routercheck.Class(t, router, m, "GET", "http://acme/users/1", "acme: GET /users/{id}")
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, %s\n", r.PathValue("name"))
}
