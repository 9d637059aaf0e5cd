// Package observe wraps an http.ResponseWriter to record the status, and when and
// why a response goes on after its header.
package observe

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/longlived"
)

// Outcome returns the outcome of a handler that has ended, by the table of package
// loadsign.
func Outcome(ctx context.Context, status int) weir.Outcome {
	return loadsign.OfStatus(status).Ended(ctx.Err())
}

// Hijacked is the status of a hijacked connection.
const Hijacked = -1

// A Response is an http.ResponseWriter that records the status. Handlers get the
// result of Writer.Observe, which supports Flush and Hijack if the original does.
type Response struct {
	http.ResponseWriter
	Status int       // 0 before the response begins
	Begins func()    // called before the response begins, if not nil
	Paced  io.Writer // receives the body, if not nil
	Owner  any       // the value for OwnerOf

	written int64 // bytes of the body, counted up to large
}

// A Laster is an Owner with a method for responses that go on after their header.
// It is called once or more, when the Status is known.
type Laster interface{ Lasts(Kind) }

// A Duplexer is an Owner with a method for handlers that read the request while they respond.
// It is called when a handler has flushed the response, or, with full, enabled full duplex.
type Duplexer interface{ Duplex(full bool) }

// A Kind says why a response goes on.
type Kind uint8

const (
	Body    Kind = iota // it was flushed, or is so large that the client's speed matters
	Stream              // it is an event stream
	Upgrade             // the connection was hijacked
)

// large is the size of a body in bytes that buffers hold even if the client does
// not read.
const large = 32 << 10

func (o *Response) lasts(kind Kind) {
	if l, ok := o.Owner.(Laster); ok {
		l.Lasts(kind)
	}
}

// grows counts n more bytes of the body.
func (o *Response) grows(n int) {
	if o.written > large {
		return
	}
	if o.written += int64(n); o.written > large {
		o.lasts(Body)
	}
}

// OwnerOf returns the Owner of a ResponseWriter that Observe has returned, or nil
// for another one.
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

// Ended records the status 200 if the handler has returned without a response.
func (o *Response) Ended() { o.record(http.StatusOK) }

// begin records the status of a response that begins, if it is the first.
func (o *Response) begin(status int) {
	if o.record(status) && longlived.Stream(o.Header()) {
		o.lasts(Stream)
	}
}

func (o *Response) record(status int) (first bool) {
	if o.Status != 0 {
		return false
	}
	o.Status = status
	if o.Begins != nil {
		o.Begins()
	}
	return true
}

func (o *Response) Write(p []byte) (int, error) {
	o.begin(http.StatusOK)
	o.grows(len(p))
	if o.Paced != nil {
		return o.Paced.Write(p)
	}
	return o.ResponseWriter.Write(p)
}

// WriteString is Write for io.WriteString.
func (o *Response) WriteString(s string) (int, error) {
	o.begin(http.StatusOK)
	o.grows(len(s))
	if o.Paced != nil {
		return io.WriteString(o.Paced, s)
	}
	return io.WriteString(o.ResponseWriter, s)
}

// ReadFrom lets the server use sendfile.
func (o *Response) ReadFrom(src io.Reader) (int64, error) {
	o.begin(http.StatusOK)
	switch s := src.(type) {
	case *io.LimitedReader: // http.ServeContent uses one
		o.grows(int(min(s.N, large+1)))
	case syscall.Conn: // a file or a connection, which the kernel copies
		o.grows(large + 1)
	default:
		src = counted{src, o}
	}
	if o.Paced != nil {
		return io.Copy(o.Paced, src)
	}
	return io.Copy(o.ResponseWriter, src)
}

// counted counts the bytes that are read of a body.
type counted struct {
	io.Reader
	response *Response
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.response.grows(n)
	return n, err
}

// FlushError is for http.ResponseController.
func (o *Response) FlushError() error {
	if can[http.Flusher](o.ResponseWriter) {
		o.begin(http.StatusOK)
		o.lasts(Body)
	}
	err := http.NewResponseController(o.ResponseWriter).Flush()
	o.duplex(false)
	return err
}

// EnableFullDuplex is for http.ResponseController.
func (o *Response) EnableFullDuplex() error {
	err := http.NewResponseController(o.ResponseWriter).EnableFullDuplex()
	if err == nil {
		o.duplex(true)
	}
	return err
}

func (o *Response) duplex(full bool) {
	if d, ok := o.Owner.(Duplexer); ok {
		d.Duplex(full)
	}
}

func (o *Response) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(o.ResponseWriter).Hijack()
	if err == nil {
		o.Status = Hijacked
		o.lasts(Upgrade)
	}
	return conn, rw, err
}

// can reports whether w, or a ResponseWriter that it unwraps to, is a T, as
// http.ResponseController finds it.
func can[T any](w http.ResponseWriter) bool {
	for {
		if _, ok := w.(T); ok {
			return true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = u.Unwrap()
	}
}

// A Writer is a Response. The types below add the optional interfaces to it.
type Writer struct{ Response }

type flusher struct{ Response }

func (f *flusher) Flush() { _ = f.FlushError() }

type hijacker struct{ Response }

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.hijack() }

type flushHijacker struct{ Response }

func (f *flushHijacker) Flush() { _ = f.FlushError() }

func (f *flushHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return f.hijack() }

// Observe wraps w in a ResponseWriter with the same optional interfaces. It can be
// hijacked if http.ResponseController could hijack w, so that it records that.
func (o *Writer) Observe(w http.ResponseWriter) http.ResponseWriter {
	o.Response = Response{ResponseWriter: w}
	_, flushes := w.(http.Flusher)
	hijacks := can[http.Hijacker](w)
	switch {
	case flushes && hijacks:
		return (*flushHijacker)(o)
	case hijacks:
		return (*hijacker)(o)
	case flushes:
		return (*flusher)(o)
	}
	return &o.Response
}
