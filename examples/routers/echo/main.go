// Echo limits the rate of each client of an echo server, and the concurrency of
// each route.
//
//	go run -C examples ./routers/echo
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8083/hello/you; done
package main

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weir-go/weir/examples/routers/internal/site"
	"github.com/weir-go/weir/httplimit"
)

func main() {
	m := site.Middleware(nil)
	e := echo.New()
	e.Use(middleware.Recover(), limit(m))
	e.GET("/hello/:name", hello)
	site.Serve(e)
}

// limit is a Middleware for echo. Unlike that of echo.WrapMiddleware, it answers
// an error before it leaves: so the Middleware sees the status, and nothing is
// written to a response that is over.
func limit(m *httplimit.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			outer := c.Response()
			admitted := func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				c.SetResponse(echo.NewResponse(w, c.Echo()))
				defer c.SetResponse(outer)
				if err := next(c); err != nil {
					c.Error(err)
				}
			}
			c.Request().Pattern = c.Path()
			m.Handler(http.HandlerFunc(admitted)).ServeHTTP(outer, c.Request())
			return nil
		}
	}
}

func hello(c echo.Context) error {
	return c.String(http.StatusOK, "hello, "+c.Param("name")+"\n")
}
