package h2inline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/weir-go/weir/service/internal/h2inline/message"
)

// An HTTP/1.1 connection stays here as long as its requests are ordinary and fast. The first
// other one takes it to net/http, for good.

// A next says what becomes of an HTTP/1.1 connection.
type next uint8

const (
	readOn   next = iota
	handOver      // to net/http
	hangUp        // when the client has read the last answer
	ended
)

// serveHTTP1 serves an HTTP/1.1 connection, of which the first bytes were read.
func (c *conn) serveHTTP1() {
	c.http1 = true
	c.initRequest()
	c.response = message.NewResponse()
	for {
		c.mu.Lock()
		then := c.answerHTTP1(time.Now())
		c.mu.Unlock()
		if then == readOn {
			then = c.fillHTTP1()
		}
		switch then {
		case handOver:
			c.handOver()
			return
		case hangUp:
			c.linger()
			fallthrough
		case ended:
			c.close()
			return
		}
	}
}

// answerHTTP1 answers the whole requests in the buffer, with one write.
func (c *conn) answerHTTP1(now time.Time) (then next) {
	c.read = now
	for then == readOn && c.err == nil {
		c.skipBreaks()
		n, ordinary := c.request.Parse(c.buf[c.r:c.w], mostRead)
		if ordinary && n == 0 {
			break
		}
		if !ordinary || !c.srv.fast(c.request.HTTP) {
			then = handOver
			break
		}
		c.r += n
		c.active = now
		then = c.respondHTTP1()
		if len(c.out) > mostWritten {
			c.flush(now)
			now = time.Now()
			c.read, c.active = now, now
		}
	}
	if len(c.request.Lines) > maxRemembered {
		c.initRequest()
	}
	switch {
	case c.r == c.w:
		c.partial = time.Time{}
	case c.partial.IsZero() || c.active.Equal(now):
		c.partial = now
	}
	if then == readOn {
		if c.w-c.r == mostRead {
			then = handOver
		}
		c.useBig(c.w == len(c.buf) || c.w-c.r >= leastRead)
	}
	c.settle(c.read)
	if c.err != nil {
		return ended
	}
	return then
}

// skipBreaks skips up to four line breaks after a POST. As in net/http, they are of old clients.
func (c *conn) skipBreaks() {
	for n := 0; n < 4 && c.r < c.w && c.request.HTTP.Method == http.MethodPost && (c.buf[c.r] == '\r' || c.buf[c.r] == '\n'); n++ {
		c.r++
	}
}

// fillHTTP1 reads more.
func (c *conn) fillHTTP1() next {
	for {
		n, err := c.nc.Read(c.buf[c.w:])
		if c.w += n; n > 0 || err == nil {
			return readOn
		}
		now := time.Now()
		at, _ := c.dueHTTP1(now)
		switch {
		case err == io.EOF && c.w > c.r:
			return handOver
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return ended
		case now.Before(at): // it was only a guess
		case c.w > c.r:
			return handOver
		case c.big != nil:
			c.useBig(false)
		default:
			return ended
		}
		c.arm(now)
	}
}

// dueHTTP1 returns the instant when something is due, if nothing comes. A part of a request goes to net/http then,
// which has the time-outs for it.
func (c *conn) dueHTTP1(now time.Time) (at time.Time, exact bool) {
	switch idle := c.srv.settings.idle; {
	case c.w > c.r:
		return c.partial.Add(soon), true
	case c.big != nil:
		return c.read.Add(soon), true
	case idle > 0:
		return c.active.Add(idle), false
	}
	return now.Add(time.Hour), false
}

// handOver gives the connection, with what was not answered, to net/http.
func (c *conn) handOver() {
	c.mu.Lock()
	c.handed = true
	c.mu.Unlock()
	rest := bytes.Clone(c.buf[c.r:c.w])
	c.r, c.w = 0, 0
	c.useBig(false)
	c.cancel()
	_ = c.nc.SetDeadline(time.Time{})
	if c.srv.outer.Connect(context.Background(), &prefixed{c.nc, rest}) != nil {
		_ = c.nc.Close()
	}
}

// linger lets the client read the last answer, and close. To close with something unread would reset the connection.
func (c *conn) linger() {
	_ = c.nc.SetReadDeadline(time.Now().Add(farewell / 2))
	for err := error(nil); err == nil; {
		_, err = c.nc.Read(c.buf)
	}
}

// respondHTTP1 answers the request that was parsed.
func (c *conn) respondHTTP1() next {
	w := &c.response
	defer w.Forget()
	if !c.call(c.srv.http.Handler, w, c.request.HTTP) {
		return ended
	}
	c.openOut()
	c.out = w.AppendHTTP1(c.out, c.srv.date.At(c.read))
	if w.Closes {
		return hangUp
	}
	return readOn
}
