package weirgin

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

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
