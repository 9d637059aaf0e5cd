package weirgorilla

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/gorilla/mux"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/routercheck"
)

func TestUse(t *testing.T) {
	for name, between := range map[string][]mux.MiddlewareFunc{"alone": nil, "in front of a copy of the request": {copies}} {
		t.Run(name, func(t *testing.T) {
			routercheck.Run(t, routercheck.Router{Hello: "GET /hello/{name}", Hook: "/hook",
				New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
					m := routercheck.Middleware(t, cfg)
					router := mux.NewRouter()
					router.Use(Middleware(m))
					router.Use(between...)
					router.HandleFunc("/hello/{name}", hello).Methods("GET")
					router.HandleFunc("/hook", hook)
					return router, m
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
	router := mux.NewRouter()
	router.Use(copies, Middleware(m))
	router.HandleFunc("/users/{id:[0-9]+}", hello).Methods("GET", "PUT")
	router.HandleFunc("/users/{id:[0-9]+}", hello).Methods("DELETE")
	router.PathPrefix("/static/").HandlerFunc(hello)
	router.Host("{tenant}.example.com").Path("/orders").HandlerFunc(hello)
	router.Host("bare.example.com").HandlerFunc(hello)
	router.Headers("X-Probe", "1").HandlerFunc(hello)
	admin := router.PathPrefix("/admin").Methods("POST").Subrouter()
	admin.HandleFunc("/{what}", hello)
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "/users/1", "GET /users/{id:[0-9]+}"},
		{"PUT", "/users/1", "PUT /users/{id:[0-9]+}"},
		{"DELETE", "/users/1", "DELETE /users/{id:[0-9]+}"},
		{"GET", "/static/a/b", "/static/"},
		{"MADEUP", "/static/a/b", "/static/"},
		{"GET", "http://acme.example.com/orders", "{tenant}.example.com/orders"},
		{"GET", "http://bare.example.com/x", "bare.example.com/"},
		{"POST", "/admin/x", "POST /admin/{what}"},
		{"POST", "/users/1", "none"}, // gorilla/mux answers with 405
		{"GET", "/nothing", "none"},
	} {
		routercheck.Class(t, router, m, tt.method, tt.url, tt.want)
	}
}

// In a subrouter, other routes have no limit.
func TestSubrouter(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := mux.NewRouter()
	router.HandleFunc("/free", hello)
	api := router.PathPrefix("/api").Subrouter()
	api.Use(Middleware(m))
	api.HandleFunc("/users/{id}", hello)
	routercheck.Class(t, router, m, "GET", "/api/users/1", "/api/users/{id}")
	routercheck.Class(t, router, m, "GET", "/free", "none")
}

// Around one handler.
func TestRoute(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := mux.NewRouter()
	router.Handle("/users/{id}", Middleware(m)(http.HandlerFunc(hello))).Methods("GET")
	routercheck.Class(t, router, m, "GET", "/users/1", "GET /users/{id}")
}

// Config.Class reads the route.
func TestOwnClass(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto,
		Class: func(r *http.Request) string { return r.Host + ": " + r.Pattern }})
	router := mux.NewRouter()
	router.Use(Middleware(m))
	router.HandleFunc("/users/{id}", hello)
	routercheck.Class(t, router, m, "GET", "http://acme/users/1", "acme: /users/{id}")
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, %s\n", mux.Vars(r)["name"])
}
