package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// maxIgnored bounds a body that says nothing, in bytes.
const maxIgnored = 64 << 10

// drain reads a body that says nothing: until that is done, the server of HTTP/1
// does not see that a caller leaves.
func (c *call) drain() *fault {
	if c.r.ContentLength == 0 {
		return nil
	}
	if c.r.ContentLength > maxIgnored {
		return largeBody
	}
	_, err := io.Copy(io.Discard, http.MaxBytesReader(c.w, c.r.Body, maxIgnored))
	return bodyFault(err)
}

// hurry gives the body its time-out, which net/http takes back when all of it is
// read: it does not end those who wait. It is for all bodies, also those that are of
// no use: net/http reads them before it answers. The time-out of the answer begins
// after that of the body. Not every ResponseWriter can have them.
func (c *call) hurry() {
	by := time.Now().Add(c.api.cfg.BodyTimeout)
	w := http.NewResponseController(c.w)
	_ = w.SetReadDeadline(by)
	_ = w.SetWriteDeadline(by.Add(c.api.cfg.AnswerTimeout))
}

// bodyFault is what an error says that a body was read with.
func bodyFault(err error) *fault {
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return slowBody
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return largeBody
	}
	return brokenBody
}

// receive reads the body of a batch, into the buffer that it has.
func (c *call) receive(b []byte) (body []byte, f *fault) {
	if c.r.ContentLength > int64(c.api.cfg.MaxBody) {
		return b, largeBody
	}
	r := http.MaxBytesReader(c.w, c.r.Body, int64(c.api.cfg.MaxBody))
	held := 0
	defer func() { c.api.bodies.Add(-int64(held)) }()
	for b = b[:0]; ; {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		if more := cap(b) - held; more > 0 {
			held += more
			if c.api.bodies.Add(int64(more)) > bodiesAtOnce*int64(c.api.cfg.MaxBody) {
				return b, busy
			}
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, bodyFault(err)
		}
	}
}

// bodiesAtOnce bounds the memory for bodies, in bodies of Config.MaxBody.
const bodiesAtOnce = 16
