package h2inline

import (
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/service/internal/h2inline/message"
)

// respond answers the request that was set.
func (c *conn) respond(id uint32, window int64, h http.Handler) {
	w := &c.response
	w.Head = c.request.HTTP.Method == http.MethodHead
	if !c.call(h, w, c.request.HTTP) {
		c.reset(id, http2.ErrCodeInternal)
	} else {
		c.sendAnswer(id, window, w, c.read)
		c.parting = c.parting || w.Closes
	}
	w.Forget()
}

// sendAnswer sends an answer that is whole.
func (c *conn) sendAnswer(id uint32, window int64, w *message.Response, now time.Time) {
	var flags http2.Flags
	if w.End() {
		flags = http2.FlagHeadersEndStream
	}
	from := c.beginBlock(id, flags)
	c.out = w.AppendFields(c.out, &c.encoder, c.srv.date.At(now))
	c.endBlock(id, from)
	if flags == 0 {
		c.sendBody(id, window, w)
	}
}

// call calls a handler, and reports whether the request has an answer.
func (c *conn) call(h http.Handler, w http.ResponseWriter, r *http.Request) (answered bool) {
	defer func() {
		if answered {
			return
		}
		if e := recover(); e != http.ErrAbortHandler {
			c.srv.http.ErrorLog.Printf("http: panic serving %v: %v\n%s", c.nc.RemoteAddr(), e, debug.Stack())
		}
	}()
	h.ServeHTTP(w, r)
	return true
}

// sendBody sends the body of an answer, and its trailer.
func (c *conn) sendBody(id uint32, window int64, w *message.Response) {
	// Nearly all answers are sent at once, and need no blocked.
	if n := len(w.Body); len(w.Trailers) == 0 && int64(n) <= min(window, c.window) && n <= c.srv.settings.maxFrame {
		c.begin(http2.FrameData, http2.FlagDataEndStream, id, n)
		c.out = append(c.out, w.Body...)
		c.window -= int64(n)
		return
	}
	c.trailer = w.AppendTrailer(c.trailer[:0])
	b := blocked{id: id, window: window, data: w.Body, ends: len(c.trailer) == 0, after: c.trailer}
	if b.ends && len(b.data) == 0 {
		c.begin(http2.FrameData, http2.FlagDataEndStream, id, 0)
		return
	}
	c.send(&b)
}

// beginBlock begins a header block. The length of the frame is that endBlock sets.
func (c *conn) beginBlock(id uint32, flags http2.Flags) (from int) {
	c.begin(http2.FrameHeaders, flags|http2.FlagHeadersEndHeaders, id, 0)
	from = len(c.out)
	if !c.encoded {
		c.encoded = true
		c.out = c.encoder.AppendSize(c.out)
	}
	return from
}

// leaveTable does without the client's table from the next block on, which empties it.
func (c *conn) leaveTable() {
	if c.encoder.Off() {
		c.encoded = false
	}
}

// endBlock ends a header block, which it splits into frames.
func (c *conn) endBlock(id uint32, from int) {
	most := c.srv.settings.maxFrame
	if n := len(c.out) - from; n <= most {
		setLength(c.out[from-headerLen:], n)
		return
	}
	rest := append([]byte(nil), c.out[from+most:]...)
	setLength(c.out[from-headerLen:], most)
	c.out[from-headerLen+4] &^= byte(http2.FlagHeadersEndHeaders)
	for c.out = c.out[:from+most]; len(rest) > 0; {
		n, flags := min(len(rest), most), http2.Flags(0)
		if n == len(rest) {
			flags = http2.FlagContinuationEndHeaders
		}
		c.begin(http2.FrameContinuation, flags, id, n)
		c.out = append(c.out, rest[:n]...)
		rest = rest[n:]
	}
}

func setLength(header []byte, n int) {
	header[0], header[1], header[2] = byte(n>>16), byte(n>>8), byte(n)
}
