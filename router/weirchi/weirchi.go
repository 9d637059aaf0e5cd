// Package weirchi puts an httplimit.Middleware into a chi router, such that each route
// has its own limit:
//
//	m, err := httplimit.New(httplimit.Config{PerClass: httplimit.Auto})
//	...
//	router := chi.NewRouter()
//	router.Use(middleware.Recoverer, weirchi.Middleware(m))
package weirchi

import (
	"cmp"
	"net/http"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/httplimit"
)

// Middleware returns m as a middleware of a router or a group, for Use and With.
//
// The class of a request is its method and the pattern of its route, as in
// "GET /users/{id}", also in a mounted router, and from the first request on. If no
// route matches, it is "/". If a mounted handler is not a chi.Router, its requests
// are one class for each method, as in "GET /files/*".
//
// Middleware sets http.Request.Pattern to the class before it calls m, so that a
// Config.Class can read it. chi sets it again when it finds the route.
func Middleware(m *httplimit.Middleware) func(http.Handler) http.Handler {
	routes := &routes{sync.Pool{New: func() any { return chi.NewRouteContext() }}}
	return func(next http.Handler) http.Handler {
		limited := m.Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if ctx := chi.RouteContext(r.Context()); ctx != nil && ctx.Routes != nil { // in a router
				r.Pattern = routes.pattern(ctx, r)
			}
			limited.ServeHTTP(w, r)
		})
	}
}

// routes finds routes before chi does, which calls the middlewares of Use first.
type routes struct{ contexts sync.Pool } // of *chi.Context

// pattern returns the method and the pattern of the route for a request.
func (rs *routes) pattern(ctx *chi.Context, r *http.Request) string {
	path := cmp.Or(r.URL.RawPath, r.URL.Path, "/")
	if len(ctx.RoutePatterns) == 0 { // in the root router
		path = cmp.Or(ctx.RoutePath, path) // an earlier middleware may have changed it
	}
	method := cmp.Or(ctx.RouteMethod, r.Method)
	search := rs.contexts.Get().(*chi.Context)
	search.Reset()
	route := ctx.Routes.Find(search, method, path)
	rs.contexts.Put(search)
	if route == "" { // or in a mounted router, if the path was changed in front of it
		route = ctx.RoutePattern()
	}
	if route == "" {
		return "/"
	}
	if route != "/" {
		route = strings.TrimSuffix(route, "/")
	}
	return method + " " + route
}
