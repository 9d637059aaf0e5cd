package httplimit

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errSlowBody  = errors.New("the request's body came too slowly")
	errLargeBody = errors.New("the request's body is too large")
	errBody      = errors.New("the request's body broke off")
)

// A body is a request body that bounds the client's time. The time passes only
// during Read. A nil body is without a bound.
type body struct {
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

func (b *body) late() bool { return b != nil && b.slow.Load() }

// Read reads within the time left. Each KiB gives a second back.
func (b *body) Read(p []byte) (int, error) {
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
func (b *body) Close() error {
	b.until(time.Now().Add(b.time))
	err := b.ReadCloser.Close()
	if !b.late() {
		b.end()
	}
	return err
}

// answer bounds the time in which the server reads the rest of the body. Over
// HTTP/1 it does so before it sends the response.
func (b *body) answer() {
	if !b.h2 && !b.late() {
		b.until(time.Now().Add(b.time))
	}
}

func (b *body) until(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && !b.duplex {
		_ = b.conn.SetReadDeadline(t) // not all writers support it
	}
}

// Duplex removes the bound of the request's body. With full, the server reads the rest of it
// after the response, and takes an error of that for its end: there is no deadline at all.
func (v *visit) Duplex(full bool) {
	b := v.body
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	b.over, b.duplex = b.over || full, true
}

// returned is called when the handler has returned, and bounds the time in which the server
// reads the rest of the body.
func (b *body) returned() {
	b.mu.Lock()
	duplex := b.duplex
	b.duplex = false
	b.mu.Unlock()
	if duplex {
		b.answer()
	}
}

// end removes the deadline when the body has ended.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over = true
		_ = b.conn.SetReadDeadline(time.Time{})
	}
}

// receive bounds the time of the request's body, and receives a small one.
func (v *visit) receive(m *Middleware, w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	r = r.WithContext(r.Context()) // a handler must not change the request it gets
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if m.cfg.BodyTimeout > 0 && (srv == nil || srv.ReadTimeout <= 0) {
		v.body = &body{
			ReadCloser: r.Body,
			conn:       http.NewResponseController(w),
			h2:         r.ProtoMajor > 1,
			time:       m.cfg.BodyTimeout,
			left:       m.cfg.BodyTimeout,
		}
		r.Body = v.body
	}
	length := r.ContentLength
	if length <= 0 || length > BodyFirst {
		return r, nil
	}
	var whole bytes.Buffer // grows as the body arrives
	part := io.LimitedReader{R: r.Body}
	for part.N == 0 { // not at the end of the body
		if m.buffered.Load() >= MaxBodyFirst {
			r.Body = received{io.MultiReader(&whole, r.Body), r.Body}
			return r, nil
		}
		part.N = 4 << 10
		n, err := whole.ReadFrom(&part)
		m.buffered.Add(n)
		v.buffered += n
		if err != nil {
			if r.ProtoMajor == 1 { // the rest of the body is still on the connection
				w.Header().Set("Connection", "close")
			}
			return r, bodyError(err)
		}
	}
	r.Body = received{&whole, r.Body}
	return r, nil
}

// bodyError returns the error of a body that could not be received.
func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlowBody
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errLargeBody
	}
	return errBody
}

// received is a body that was received first.
type received struct {
	io.Reader
	io.Closer
}
