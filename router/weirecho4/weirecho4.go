// Package weirecho4 puts an httplimit.Middleware into an echo v4 server, such that each
// route has its own limit:
//
//	m, err := httplimit.New(httplimit.Config{PerClass: httplimit.Auto})
//	...
//	e := echo.New()
//	e.Use(middleware.Recover(), weirecho4.Middleware(m))
//
// Package weirecho is for echo v5.
package weirecho4

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/httplimit"
)

// Middleware returns m as a middleware of a server, a group or a route, for Use, not for
// Pre, which runs before echo looks for the route.
//
// The class of a request is its method and the pattern of its route, as in
// "GET /users/:id". If no route matches, it is "/".
//
// If a handler returns an error, Echo.HTTPErrorHandler answers it before the request
// leaves its limit, so that m sees the status. Outer middlewares see the response, and
// no error.
//
// Middleware sets http.Request.Pattern to the class before it calls m, so that a
// Config.Class can read it. Handlers get a Request and a Response of m. Afterwards the
// context has the earlier ones again.
func Middleware(m *httplimit.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			request, outer := c.Request(), c.Response()
			request.Pattern = pattern(c)
			admitted := func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				c.SetResponse(echo.NewResponse(w, c.Echo()))
				defer func() {
					c.SetRequest(request)
					c.SetResponse(outer)
				}()
				if err := next(c); err != nil {
					c.Error(err)
				}
			}
			m.Handler(http.HandlerFunc(admitted)).ServeHTTP(outer, request)
			return nil
		}
	}
}

// pattern returns the method and the pattern of the route.
func pattern(c echo.Context) string {
	path := c.Path()
	if path == "" || c.Get(echo.ContextKeyHeaderAllow) != nil { // a 404 or 405
		return "/"
	}
	switch method := c.Request().Method; method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method + " " + path
	default: // RouteNotFound matches any method that a client makes up
		return path
	}
}
