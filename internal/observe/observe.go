// Package observe looks at what an HTTP handler answers, without being in its
// way.
package observe

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/weir-go/weir/internal/longlived"
)

// Hijacked is the status of a connection that the handler has taken over.
const Hijacked = -1

// A Response is an http.ResponseWriter that hands everything on, and looks at
// the status. What a handler gets is what Writer.Observe returns: it flushes and
// can be hijacked if the one behind it can.
type Response struct {
	http.ResponseWriter
	Status int       // 0 until there is one
	Begins func()    // if not nil, is called before the response begins
	Paced  io.Writer // if not nil, where the body goes
	Owner  any       // whoever observes

	written int64 // bytes of the body, until they are many
}

// An Owner that is a Laster is told when a response goes on after its header. The
// Status is known then. It can be told several times.
type Laster interface{ Lasts(Kind) }

// A Kind is why a response goes on.
type Kind uint8

const (
	Body    Kind = iota // it was flushed, or is so large that a client can hold it up
	Stream              // it is an event stream
	Upgrade             // the handler has taken over the connection
)

// large is how much of a body goes out whether or not the client takes it.
const large = 32 << 10

func (o *Response) lasts(kind Kind) {
	if l, ok := o.Owner.(Laster); ok {
		l.Lasts(kind)
	}
}

// grows notes that so much more of the body follows.
func (o *Response) grows(n int) {
	if o.written > large {
		return
	}
	if o.written += int64(n); o.written > large {
		o.lasts(Body)
	}
}

// OwnerOf returns the Owner of a Response that is, or is behind, one that
// Observe has returned; nil if w is something else.
func OwnerOf(w http.ResponseWriter) any {
	if o, ok := w.(interface{ owner() any }); ok {
		return o.owner()
	}
	return nil
}

func (o *Response) owner() any { return o.Owner }

// Unwrap is for http.ResponseController.
func (o *Response) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *Response) WriteHeader(code int) {
	if code >= 200 {
		o.begin(code)
	}
	o.ResponseWriter.WriteHeader(code)
}

// Begun notes that the response begins, if it has not.
func (o *Response) Begun() { o.begin(http.StatusOK) }

func (o *Response) begin(status int) {
	if o.Status != 0 {
		return
	}
	o.Status = status
	if o.Begins != nil {
		o.Begins()
	}
	if longlived.Stream(o.Header()) {
		o.lasts(Stream)
	}
}

func (o *Response) Write(p []byte) (int, error) {
	o.Begun()
	o.grows(len(p))
	if o.Paced != nil {
		return o.Paced.Write(p)
	}
	return o.ResponseWriter.Write(p)
}

// WriteString is Write, for io.WriteString.
func (o *Response) WriteString(s string) (int, error) {
	o.Begun()
	o.grows(len(s))
	if o.Paced != nil {
		return io.WriteString(o.Paced, s)
	}
	return io.WriteString(o.ResponseWriter, s)
}

// ReadFrom lets the server copy in its own way, by sendfile if it can.
func (o *Response) ReadFrom(src io.Reader) (int64, error) {
	o.Begun()
	if l, ok := src.(*io.LimitedReader); ok { // as that of http.ServeContent
		o.grows(int(min(l.N, large+1)))
	} else {
		o.grows(large + 1)
	}
	if o.Paced != nil {
		return io.Copy(o.Paced, src)
	}
	return io.Copy(o.ResponseWriter, src)
}

type flusher struct{ Response }

func (f *flusher) Flush() { _ = f.FlushError() }

// FlushError is for http.ResponseController.
func (f *flusher) FlushError() error {
	f.Begun()
	f.lasts(Body)
	return http.NewResponseController(f.ResponseWriter).Flush()
}

type hijacker struct{ flusher }

// A Writer is a Response in its three forms.
type Writer struct{ hijacker }

// Observe returns the form of the Writer that does as much as w.
func (o *Writer) Observe(w http.ResponseWriter) http.ResponseWriter {
	o.Response = Response{ResponseWriter: w}
	if _, ok := w.(http.Hijacker); ok {
		return &o.hijacker
	}
	if _, ok := w.(http.Flusher); ok {
		return &o.flusher
	}
	return &o.Response
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.Status = Hijacked
		h.lasts(Upgrade)
	}
	return conn, rw, err
}
