// Package weirgin puts an httplimit.Middleware into a gin router, such that each route
// has its own limit:
//
//	m, err := httplimit.New(httplimit.Config{PerClass: httplimit.Auto})
//	...
//	router := gin.New()
//	router.Use(gin.Recovery(), weirgin.Middleware(m))
package weirgin

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/httplimit"
)

// Middleware returns m as a middleware of a router, a group or a route. If m refuses a
// request, the handlers after it do not run.
//
// The class of a request is its method and the pattern of its route, as in
// "GET /users/:id". If no route matches, it is "/".
//
// Middleware sets http.Request.Pattern to the class before it calls m, so that a
// Config.Class can read it. Handlers get c.Request with the context of m, and c.Writer
// of m. Afterwards c has the earlier ones again.
func Middleware(m *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		request, outer := c.Request, c.Writer
		request.Pattern = "/"
		if path := c.FullPath(); path != "" {
			request.Pattern = request.Method + " " + path
		}
		admitted := false
		next := func(w http.ResponseWriter, r *http.Request) {
			admitted = true
			c.Request, c.Writer = r, &writer{outer, w}
			defer func() { c.Request, c.Writer = request, outer }()
			c.Next()
			w.WriteHeader(outer.Status()) // gin has sent it, or will
		}
		m.Handler(http.HandlerFunc(next)).ServeHTTP(outer, request)
		if !admitted {
			c.Abort()
		}
	}
}
