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
	errSlowBody = errors.New("the request's body came too slowly")
	errBody     = errors.New("the request's body broke off")
)

// A body is that of a request, while its client's time runs. A nil body is one
// that nobody watches.
type body struct {
	io.ReadCloser
	conn  *http.ResponseController
	until time.Time
	slow  atomic.Bool
}

func (b *body) late() bool { return b != nil && b.slow.Load() }

// Read reads for as long as the client has time: a second more for each KiB.
func (b *body) Read(p []byte) (int, error) {
	_ = b.conn.SetReadDeadline(b.until) // not all writers can
	n, err := b.ReadCloser.Read(p)
	b.until = b.until.Add(time.Duration(n) * (time.Second / 1024))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.slow.Store(true)
	} else if err != nil {
		_ = b.conn.SetReadDeadline(time.Time{}) // what follows the body has time
	}
	return n, err
}

// receive watches the body of a request, and waits until a small one is there.
func (v *visit) receive(m *Middleware, w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	r = r.WithContext(r.Context()) // handlers do not change the request they get
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if m.cfg.BodyTimeout > 0 && (srv == nil || srv.ReadTimeout <= 0) {
		v.body = &body{ReadCloser: r.Body, conn: http.NewResponseController(w), until: time.Now().Add(m.cfg.BodyTimeout)}
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
		w.Header().Set("Connection", "close") // what follows on it is the rest of the body
		if v.body.late() {
			return r, errSlowBody
		}
		return r, errBody
	}
	r.Body = received{&whole, r.Body}
	return r, nil
}

// received is a body that has come.
type received struct {
	*bytes.Buffer
	io.Closer
}
