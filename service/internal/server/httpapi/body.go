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

// receive reads the body of a batch into a buffer.
func (c *call) receive(b []byte) (body []byte, f *fault) {
	if c.r.ContentLength > int64(c.api.cfg.MaxBody) {
		return b, largeBody
	}
	r := http.MaxBytesReader(c.w, c.r.Body, int64(c.api.cfg.MaxBody))
	held, limit, client := int64(0), c.api.limits[connlimit.Bodies], c.client()
	defer func() { limit.Leave(client, held) }()
	for b = b[:0]; ; {
		b = slices.Grow(b, 1)
		if more := int64(cap(b)) - held; more > 0 {
			if !limit.Enter(client, more) {
				return b, busy
			}
			held += more
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			c.unread = false
			return b, nil
		}
		if err != nil {
			return b, bodyFault(err)
		}
	}
}
