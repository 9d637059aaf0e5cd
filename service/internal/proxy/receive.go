package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
)

// A body of up to bodyFirst bytes is received before its request takes a unit, so
// that a slow client holds none. While bodiesFirst bytes are buffered, further
// requests take their unit first.
const (
	bodyFirst   = 64 << 10
	bodiesFirst = 64 << 20
)

// receive reads the body of a request if its length is known and small, and
// replaces it by the bytes. Otherwise it returns nil. The caller subtracts the
// length from p.bodies in the end.
func (p *Proxy) receive(w http.ResponseWriter, r *http.Request) (received, error) {
	if r.Body == nil || r.ContentLength <= 0 || r.ContentLength > bodyFirst {
		return nil, nil
	}
	if p.bodies.Add(r.ContentLength) > bodiesFirst {
		p.bodies.Add(-r.ContentLength)
		return nil, nil
	}
	u := &upload{body: r.Body, client: http.NewResponseController(w), limit: p.cfg.ClientTimeout}
	defer u.detach()
	var whole bytes.Buffer
	if _, err := whole.ReadFrom(u); err != nil {
		p.bodies.Add(-r.ContentLength)
		return nil, err
	}
	b := received(whole.Bytes())
	r.Body, _ = b.again()
	return b, nil
}

// received is a body that was received first.
type received []byte

func (b received) again() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }

// notReceived answers a request after receive has failed.
func notReceived(w http.ResponseWriter, r *http.Request, err error) {
	if r.ProtoMajor == 1 { // the rest of the body is still on the connection
		w.Header().Set("Connection", "close")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		clientSlow.Write(w, r, nil)
	} else {
		clientBroken.Write(w, r, nil)
	}
}
