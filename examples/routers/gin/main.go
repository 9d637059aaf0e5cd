// Gin limits the rate of each client of a gin server, and the concurrency of each
// route.
//
//	go run -C examples ./routers/gin
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8083/hello/you; done
package main

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/examples/routers/internal/site"
	"github.com/weir-go/weir/httplimit"
)

func main() {
	m := site.Middleware(nil)
	router := gin.New()
	router.Use(gin.Recovery(), limit(m))
	router.GET("/hello/:name", hello)
	site.Serve(router)
}

// limit is a Middleware for gin.
func limit(m *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer, entered := c.Writer, false
		admitted := func(w http.ResponseWriter, r *http.Request) {
			entered = true
			c.Request, c.Writer = r, &writer{outer, w}
			defer func() { c.Writer = outer }()
			c.Next()
			w.WriteHeader(outer.Status()) // gin has sent it, or will
		}
		c.Request.Pattern = c.FullPath()
		m.Handler(http.HandlerFunc(admitted)).ServeHTTP(outer, c.Request)
		if !entered {
			c.Abort()
		}
	}
}

// A writer sends the status and the body through the writer of the Middleware. gin's
// own writer keeps the status until the body begins.
type writer struct {
	gin.ResponseWriter
	limited http.ResponseWriter
}

func (w *writer) Unwrap() http.ResponseWriter { return w.limited }

func (w *writer) WriteHeaderNow() {
	w.limited.WriteHeader(w.Status())
	w.ResponseWriter.WriteHeaderNow()
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	return w.limited.Write(p)
}

func (w *writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.limited).Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.limited).Hijack()
}

func hello(c *gin.Context) {
	c.String(http.StatusOK, "hello, %s\n", c.Param("name"))
}
