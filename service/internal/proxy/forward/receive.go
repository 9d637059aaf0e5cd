package forward

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

// receiveBody reads the body of a request if its length is known and small, and sets
// GetBody, for a retry on another connection. It returns the number of bytes that it
// has added to p.bodies; the caller subtracts them in the end.
func (p *Forwarder) receiveBody(w http.ResponseWriter, r *http.Request) (size int64, err error) {
	if r.Body == nil || r.ContentLength <= 0 || r.ContentLength > bodyFirst || len(r.Header["Expect"]) > 0 {
		return 0, nil // with Expect, the origin decides whether it wants the body
	}
	size = r.ContentLength
	if p.bodies.Add(size) > bodiesFirst {
		p.bodies.Add(-size)
		return 0, nil
	}
	u := &upload{body: r.Body, client: http.NewResponseController(w), http1: r.ProtoMajor == 1, limit: p.cfg.ClientTimeout}
	defer u.detach()
	var whole bytes.Buffer
	if _, err := whole.ReadFrom(u); err != nil {
		return size, err
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole.Bytes())), nil }
	r.Body, _ = r.GetBody()
	return size, nil
}

// answerBrokenBody answers a request after receive has failed.
func answerBrokenBody(w http.ResponseWriter, r *http.Request, err error) {
	if r.ProtoMajor == 1 { // the rest of the body is still on the connection
		w.Header().Set("Connection", "close")
	}
	switch {
	case tooLarge(err):
		bodyTooLarge.Write(w, r, nil)
	case errors.Is(err, os.ErrDeadlineExceeded):
		clientSlow.Write(w, r, nil)
	default:
		clientBroken.Write(w, r, nil)
	}
}
