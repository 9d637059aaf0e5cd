package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// An observer hands everything on, and looks at the status.
type observer struct {
	http.ResponseWriter
	status int // -1 of a connection that the handler has taken over
}

// observe returns a ResponseWriter that can flush and be hijacked if w can.
func observe(w http.ResponseWriter) (http.ResponseWriter, *observer) {
	o := &observer{ResponseWriter: w}
	if _, ok := w.(http.Hijacker); ok {
		return hijacker{flusher{o}}, o
	}
	if _, ok := w.(http.Flusher); ok {
		return flusher{o}, o
	}
	return o, o
}

// Unwrap is for http.ResponseController.
func (o *observer) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *observer) WriteHeader(code int) {
	if o.status == 0 && code >= 200 {
		o.status = code
	}
	o.ResponseWriter.WriteHeader(code)
}

// begun notes that the response begins, if it has not.
func (o *observer) begun() {
	if o.status == 0 {
		o.status = http.StatusOK
	}
}

func (o *observer) Write(p []byte) (int, error) {
	o.begun()
	return o.ResponseWriter.Write(p)
}

// WriteString is Write, for io.WriteString.
func (o *observer) WriteString(s string) (int, error) {
	o.begun()
	return io.WriteString(o.ResponseWriter, s)
}

// ReadFrom lets the server copy in its own way, by sendfile if it can.
func (o *observer) ReadFrom(src io.Reader) (int64, error) {
	o.begun()
	return io.Copy(o.ResponseWriter, src)
}

type flusher struct{ *observer }

func (f flusher) Flush() { _ = f.FlushError() }

// FlushError is for http.ResponseController.
func (f flusher) FlushError() error {
	f.begun()
	return http.NewResponseController(f.ResponseWriter).Flush()
}

type hijacker struct{ flusher }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.status = -1
	}
	return conn, rw, err
}
