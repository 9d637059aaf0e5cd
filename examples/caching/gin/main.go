// Gin keeps the responses of an expensive route of a gin server, and makes them once for all
// clients that wait.
//
//	go run -C examples ./caching/gin
//
// and, while it runs:
//
//	for i in 1 2 3; do curl -i http://127.0.0.1:8089/calculate/1 & done; wait
package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/examples/caching/internal/site"
)

func main() {
	site.Serve(site.InFront(router(site.Calculate), site.Cache()))
}

// router calls calculate for GET /calculate/{x}.
func router(calculate func(x string) (string, error)) http.Handler {
	router := gin.New()
	router.Use(gin.Recovery())
	router.GET("/calculate/:x", func(c *gin.Context) {
		result, err := calculate(c.Param("x"))
		if err != nil {
			c.String(http.StatusBadGateway, "%s: %v", c.Param("x"), err)
			return
		}
		c.String(http.StatusOK, "%s: %s", c.Param("x"), result)
	})
	router.GET("/me", func(c *gin.Context) {
		c.SetCookie("session", "secret", 0, "/", "", false, true)
		c.String(http.StatusOK, "me")
	})
	return router
}
