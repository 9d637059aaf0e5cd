// Package weirgorilla puts an httplimit.Middleware into a router of gorilla/mux, such
// that each route has its own limit:
//
//	m, err := httplimit.New(httplimit.Config{PerClass: httplimit.Auto})
//	...
//	router := mux.NewRouter()
//	router.Use(weirgorilla.Middleware(m))
package weirgorilla

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/weir-go/weir/httplimit"
)

// Middleware returns m as a middleware of a router or a subrouter, for Use. gorilla/mux
// calls middlewares only if a route matches: a 404 or 405 takes no unit and no token.
//
// The class of a request is the method, if its route has methods, and the templates of
// the host and the path, as in "GET /users/{id:[0-9]+}", "/static/" or
// "GET {tenant}.example.com/users". If the route has no template, it is "/".
//
// Middleware sets http.Request.Pattern to the class before it calls m, so that a
// Config.Class can read it.
func Middleware(m *httplimit.Middleware) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		limited := m.Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if route := mux.CurrentRoute(r); route != nil {
				r.Pattern = pattern(route, r.Method)
			}
			limited.ServeHTTP(w, r)
		})
	}
}

// pattern returns the method, the host and the path of a route.
func pattern(route *mux.Route, method string) string {
	host, _ := route.GetHostTemplate() // empty if there is none
	path, _ := route.GetPathTemplate()
	if path == "" {
		path = "/"
	}
	if _, err := route.GetMethods(); err != nil { // it matches all methods
		return host + path
	}
	return method + " " + host + path
}
