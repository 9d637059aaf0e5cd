// Package bodytime bounds the time that a client takes to send the body of a request.
package bodytime

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A Body is a request body that bounds the client's time. The time passes only
// during Read. A nil Body is without a bound.
type Body struct {
	io.ReadCloser
	conn *http.ResponseController
	h2   bool
	time time.Duration // the bound
	left time.Duration // of it
	slow atomic.Bool

	mu     sync.Mutex // guards the fields below
	over   bool       // the body is read: a deadline would concern the next request
	duplex bool       // the handler reads although it has flushed the response: it has all the time
}

// New returns the body of a request with a bound. Nothing else may set the deadline for reads of its connection.
func New(w http.ResponseWriter, r *http.Request, bound time.Duration) *Body {
	return &Body{ReadCloser: r.Body, conn: http.NewResponseController(w), h2: r.ProtoMajor > 1, time: bound, left: bound}
}

// Late reports whether the time was over before the body was.
func (b *Body) Late() bool { return b != nil && b.slow.Load() }

// Read reads within the time left. Each KiB gives a second back.
func (b *Body) Read(p []byte) (int, error) {
	began := time.Now()
	b.until(began.Add(b.left))
	n, err := b.ReadCloser.Read(p)
	b.left = min(b.left-time.Since(began)+time.Duration(n)*(time.Second/1024), b.time)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.slow.Store(true)
	case err != nil:
		b.end()
	case b.h2: // a deadline ends an HTTP/2 stream even without a Read
		b.until(time.Time{})
	}
	return n, err
}

// Close closes the body. The server may read the rest of it.
func (b *Body) Close() error {
	b.until(time.Now().Add(b.time))
	err := b.ReadCloser.Close()
	if !b.Late() {
		b.end()
	}
	return err
}

// Answer is called when the handler begins its response. Before an HTTP/1 server sends the
// response, it reads the rest of the body: Answer bounds the time of that.
func (b *Body) Answer() {
	if !b.h2 && !b.Late() {
		b.until(time.Now().Add(b.time))
	}
}

func (b *Body) until(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && !b.duplex {
		_ = b.conn.SetReadDeadline(t) // not all writers support it
	}
}

// Duplex removes the bound, because the handler reads although it has flushed the response. With full, the server reads
// the rest of the body after the response, and takes an error of that for its end: there is no deadline at all.
func (b *Body) Duplex(full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	b.over, b.duplex = b.over || full, true
}

// Returned is called when the handler has returned, and bounds the time in which the server
// reads the rest of the body.
func (b *Body) Returned() {
	b.mu.Lock()
	duplex := b.duplex
	b.duplex = false
	b.mu.Unlock()
	if duplex {
		b.Answer()
	}
}

// end removes the deadline when the body has ended.
func (b *Body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over = true
		_ = b.conn.SetReadDeadline(time.Time{})
	}
}
