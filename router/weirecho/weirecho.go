// Package weirecho puts an httplimit.Middleware into an echo v5 server, such that each
// route has its own limit:
//
//	m, err := httplimit.New(httplimit.Config{PerClass: httplimit.Auto})
//	...
//	e := echo.New()
//	e.Use(middleware.Recover(), weirecho.Middleware(m))
//
// Package weirecho4 is for echo v4.
package weirecho

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/httplimit"
)

// Middleware returns m as a middleware of a server, a group or a route, for Use, not for
// Pre, which runs before echo looks for the route.
//
// The class of a request is the method and the pattern of its route, as in
// "GET /users/:id", or the pattern alone of a route for all methods. If no route
// matches, it is "/".
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
		return func(c *echo.Context) error {
			request, outer := c.Request(), c.Response()
			request.Pattern = pattern(c)
			admitted := func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				c.SetResponse(w)
				defer func() {
					c.SetRequest(request)
					c.SetResponse(outer)
				}()
				if err := next(c); err != nil {
					c.Echo().HTTPErrorHandler(c, err)
				}
			}
			m.Handler(http.HandlerFunc(admitted)).ServeHTTP(outer, request)
			return nil
		}
	}
}

// pattern returns the method and the pattern of the route.
func pattern(c *echo.Context) string {
	switch route := c.RouteInfo(); route.Method {
	case "": // a 404 or 405
		return "/"
	case echo.RouteAny, echo.RouteNotFound:
		return route.Path
	default:
		return route.Method + " " + route.Path
	}
}
