package httplimit

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
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
	left time.Duration // of the client's time
	over bool          // there is no more of it: deadlines would hit others
	slow atomic.Bool
}

func (b *body) late() bool { return b != nil && b.slow.Load() }

// Read reads for as long as the client has time: a second more for each KiB.
func (b *body) Read(p []byte) (int, error) {
	if b.over {
		return b.ReadCloser.Read(p)
	}
	began := time.Now()
	_ = b.conn.SetReadDeadline(began.Add(b.left)) // not all writers can
	n, err := b.ReadCloser.Read(p)
	b.left += time.Duration(n)*(time.Second/1024) - time.Since(began)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.slow.Store(true)
		return n, err
	}
	b.over = err != nil
	_ = b.conn.SetReadDeadline(time.Time{}) // whatever the server reads now has time
	return n, err
}

// receive watches the body of a request, and waits until a small one is there.
func (v *visit) receive(m *Middleware, w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	r = r.WithContext(r.Context()) // handlers do not change the request they get
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if m.cfg.BodyTimeout > 0 && (srv == nil || srv.ReadTimeout <= 0) {
		v.body = &body{ReadCloser: r.Body, conn: http.NewResponseController(w), left: m.cfg.BodyTimeout}
		r.Body = v.body
	}
	length := r.ContentLength
	if length <= 0 || length > m.cfg.BodyFirst {
		return r, nil
	}
	if m.bodies.Add(length) > MaxBodyFirst {
		m.bodies.Add(-length)
		return r, nil
	}
	v.first = length
	var whole bytes.Buffer // grows as the body comes
	if _, err := whole.ReadFrom(r.Body); err != nil {
		if r.ProtoMajor == 1 { // what follows on the connection is the rest of the body
			w.Header().Set("Connection", "close")
		}
		return r, bodyError(err)
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
	*bytes.Buffer
	io.Closer
}
