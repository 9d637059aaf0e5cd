// Echo limits the rate of each client of an echo v5 server, and the concurrency of each route.
//
//	go run -C examples ./routers/echo
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8083/hello/you; done
package main

import (
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weir-go/weir/examples/routers/internal/site"
	"github.com/weir-go/weir/router/weirecho"
)

func main() {
	e := echo.New()
	e.Use(middleware.Recover(), weirecho.Middleware(site.Middleware()))
	e.GET("/hello/:name", hello)
	site.Serve(e)
}

func hello(c *echo.Context) error {
	return c.String(http.StatusOK, "hello, "+c.Param("name")+"\n")
}
