// Echo keeps the responses of an expensive route of an echo server, and makes them once for all
// clients that wait.
//
//	go run -C examples ./caching/echo
//
// and, while it runs:
//
//	for i in 1 2 3; do curl -i http://127.0.0.1:8089/calculate/1 & done; wait
package main

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weir-go/weir/examples/caching/internal/site"
)

func main() {
	site.Serve(site.InFront(router(site.Calculate), site.Cache()))
}

// router calls calculate for GET /calculate/{x}.
func router(calculate func(x string) (string, error)) http.Handler {
	e := echo.New()
	e.Use(middleware.Recover())
	e.GET("/calculate/:x", func(c echo.Context) error {
		result, err := calculate(c.Param("x"))
		if err != nil {
			return c.String(http.StatusBadGateway, fmt.Sprintf("%s: %v", c.Param("x"), err))
		}
		return c.String(http.StatusOK, fmt.Sprintf("%s: %s", c.Param("x"), result))
	})
	e.GET("/me", func(c echo.Context) error {
		c.SetCookie(&http.Cookie{Name: "session", Value: "secret"})
		return c.String(http.StatusOK, "me")
	})
	return e
}
