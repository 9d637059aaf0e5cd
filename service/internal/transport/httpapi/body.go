package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/connlimit"
)

// maxIgnored bounds a body that is not used, in bytes.
const maxIgnored = 64 << 10

// drain reads a body that is not used: before that, net/http does not detect that
// an HTTP/1 client disconnects.
func (c *call) drain() *fault {
	if c.r.ContentLength == 0 {
		return nil
	}
	if c.r.ContentLength > maxIgnored {
		return largeBody
	}
	_, err := io.Copy(io.Discard, http.MaxBytesReader(c.w, c.r.Body, maxIgnored))
	c.unread = err != nil
	return bodyFault(err)
}

// limitBody sets the time-out of the body, also of one that is ignored, because
// net/http reads it before it answers. net/http removes the time-out when the body
// has been read, so it does not end a wait. The time-out of the answer begins after
// that of the body. A ResponseWriter without time-outs returns errors, which are
// ignored.
func (c *call) limitBody() {
	by := time.Now().Add(c.api.cfg.BodyTimeout)
	w := http.NewResponseController(c.w)
	_ = w.SetReadDeadline(by)
	_ = w.SetWriteDeadline(by.Add(c.api.cfg.AnswerTimeout))
}

// bodyFault converts an error of reading a body.
func bodyFault(err error) *fault {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return slowBody
	case tooLarge:
		return largeBody
	}
	return brokenBody
}

// hold counts the memory of a batch, in bytes, and reports whether the client may have
// it.
func (c *call) hold(b *batch, n int64) bool {
	if !c.api.limits[connlimit.Bodies].Enter(c.client, n) {
		return false
	}
	b.held += n
	return true
}

// receive reads the body of a batch.
func (c *call) receive(b *batch) *fault {
	if c.r.ContentLength > int64(c.api.cfg.MaxBody) {
		return largeBody
	}
	r := http.MaxBytesReader(c.w, c.r.Body, int64(c.api.cfg.MaxBody))
	for b.body = b.body[:0]; ; {
		b.body = slices.Grow(b.body, 1)
		if more := int64(cap(b.body)) - b.held; more > 0 && !c.hold(b, more) {
			return busy
		}
		n, err := r.Read(b.body[len(b.body):cap(b.body)])
		b.body = b.body[:len(b.body)+n]
		if err == io.EOF {
			c.unread = false
			return nil
		}
		if err != nil {
			return bodyFault(err)
		}
	}
}
