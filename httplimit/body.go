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

// A body is that of a request, while its client's time runs: only as long as
// somebody reads it. A nil body is one that nobody watches.
type body struct {
	io.ReadCloser
	conn *http.ResponseController
	h2   bool
	time time.Duration // that a client has
	left time.Duration // of it
	slow atomic.Bool

	mu   sync.Mutex
	over bool // there is no more of it: a deadline would hit what follows
}

func (b *body) late() bool { return b != nil && b.slow.Load() }

// Read reads for as long as the client has time: each KiB gives a second back.
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
	case b.h2: // there it ends the stream, whether somebody reads or not
		b.until(time.Time{})
	}
	return n, err
}

// Close closes the body, of which the server may read the rest.
func (b *body) Close() error {
	b.until(time.Now().Add(b.time))
	err := b.ReadCloser.Close()
	if !b.late() {
		b.end()
	}
	return err
}

// answer bounds the time in which the server reads what the handler has left:
// over HTTP/1 it does so before it answers.
func (b *body) answer() {
	if !b.h2 && !b.late() {
		b.until(time.Now().Add(b.time))
	}
}

func (b *body) until(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		_ = b.conn.SetReadDeadline(t) // not all writers can
	}
}

// end gives time to what follows the body.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over = true
		_ = b.conn.SetReadDeadline(time.Time{})
	}
}

// receive watches the body of a request, and waits until a small one is there.
func (v *visit) receive(m *Middleware, w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	r = r.WithContext(r.Context()) // handlers do not change the request they get
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
	if length <= 0 || length > m.cfg.BodyFirst {
		return r, nil
	}
	var whole bytes.Buffer // grows as the body comes
	part := io.LimitedReader{R: r.Body}
	for part.N == 0 { // there may be more
		if m.bodies.Load() >= MaxBodyFirst {
			r.Body = received{io.MultiReader(&whole, r.Body), r.Body}
			return r, nil
		}
		part.N = 4 << 10
		n, err := whole.ReadFrom(&part)
		m.bodies.Add(n)
		v.first += n
		if err != nil {
			if r.ProtoMajor == 1 { // what follows on the connection is the rest of the body
				w.Header().Set("Connection", "close")
			}
			return r, bodyError(err)
		}
	}
	r.Body = received{&whole, r.Body}
	return r, nil
}

// bodyError is what was wrong with a body that was received first.
func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlowBody
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errLargeBody
	}
	return errBody
}

// received is a body that has come.
type received struct {
	io.Reader
	io.Closer
}
