package httplimit

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/weir-go/weir/internal/bodytime"
)

var (
	errSlowBody  = errors.New("the request's body came too slowly")
	errLargeBody = errors.New("the request's body is too large")
	errBody      = errors.New("the request's body broke off")
)

// receive bounds the time of the request's body, and receives a small one.
func (v *visit) receive(m *Middleware, w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	r = r.WithContext(r.Context()) // a handler must not change the request it gets
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if m.cfg.BodyTimeout > 0 && (srv == nil || srv.ReadTimeout <= 0) {
		v.body = bodytime.New(w, r, m.cfg.BodyTimeout)
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

// Duplex removes the bound of the request's body: see bodytime.Body.Duplex.
func (v *visit) Duplex(full bool) {
	if v.body != nil {
		v.body.Duplex(full)
	}
}
