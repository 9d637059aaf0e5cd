// Gin limits the rate of each client of a gin server, and the concurrency of each route.
//
//	go run -C examples ./routers/gin
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8083/hello/you; done
package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/examples/routers/internal/site"
	"github.com/weir-go/weir/router/weirgin"
)

func main() {
	router := gin.New()
	router.Use(gin.Recovery(), weirgin.Middleware(site.Middleware()))
	router.GET("/hello/:name", hello)
	site.Serve(router)
}

func hello(c *gin.Context) {
	c.String(http.StatusOK, "hello, %s\n", c.Param("name"))
}
