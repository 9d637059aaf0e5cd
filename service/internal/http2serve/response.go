package http2serve

import (
	"cmp"
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/service/internal/fieldblock"
	"github.com/weir-go/weir/service/internal/inline"
)

// A response is the http.ResponseWriter of a connection. It is used again for each request that is
// answered here.
type response struct {
	http1    bool
	header   http.Header
	fields   []*inline.Field
	block    []byte   // the rest of the header, without the status
	trailers []string // their names
	body     []byte
	state
}

// A state describes a response so far.
type state struct {
	status int  // 0 before the header
	typed  bool // there is a Content-Type
	sized  bool // there is a Content-Length
	closes bool // the client is asked to leave
	head   bool // the request is HEAD: the body is not sent
	facts  inline.Facts
	now    time.Time
}

// Header returns the header fields of the answer.
func (w *response) Header() http.Header { return w.header }

var _ inline.Writer = (*response)(nil)

// Facts returns the Facts of the request.
func (w *response) Facts() inline.Facts { return w.facts }

// Now returns the instant of the request.
func (w *response) Now() time.Time { return w.now }

// SetField adds a field.
func (w *response) SetField(f *inline.Field) {
	switch f.Name {
	case "Content-Type":
		w.typed = true
	case "Trailer":
		w.trailers = append(w.trailers, f.Values...)
	}
	w.fields = append(w.fields, f)
}

// SetValue encodes a field.
func (w *response) SetValue(name string, value []byte) {
	if w.http1 {
		w.block = appendCanonical(w.block, name, value)
	} else {
		w.block = fieldblock.AppendField(w.block, name, value)
	}
}

// Status returns the status so far.
func (w *response) Status() int { return cmp.Or(w.status, http.StatusOK) }

// WriteHeader encodes the header as it is now.
func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	if w.status = status; len(w.header) == 0 {
		return
	}
	for name, values := range w.header {
		switch name {
		case "Connection":
			w.closes = len(values) > 0 && values[0] == "close"
			continue
		case "Trailer":
			w.trailers = append(w.trailers, values...)
		case "Content-Type":
			w.typed = true
		case "Content-Length":
			w.sized = true
		}
		if w.http1 {
			w.appendLines(name, values)
		} else {
			w.block = fieldblock.AppendValues(w.block, name, values)
		}
	}
}

// bodyless reports whether the status permits no body.
func (w *response) bodyless() bool {
	return w.status == http.StatusNoContent || w.status == http.StatusNotModified
}

// Write adds to the body.
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.bodyless() {
		return 0, http.ErrBodyNotAllowed
	}
	w.body = append(w.body, b...)
	return len(b), nil
}

// sizedBody bounds the bodies to which net/http adds a Content-Length.
const sizedBody = 4 << 10

// end completes the header. It reports whether there is no more than that.
func (w *response) end() bool {
	w.WriteHeader(http.StatusOK)
	if !w.bodyless() {
		if !w.typed && len(w.body) > 0 {
			w.block = fieldblock.AppendValues(w.block, "Content-Type", []string{http.DetectContentType(w.body)})
		}
		if !w.sized && len(w.body) <= sizedBody && (len(w.body) > 0 || !w.head) {
			w.block = fieldblock.AppendContentLength(w.block, len(w.body))
		}
	}
	return w.head || len(w.body) == 0 && len(w.trailers) == 0
}

// FlushError does nothing: an answer is sent when it is whole.
func (w *response) FlushError() error { return nil }

// SetReadDeadline does nothing: the whole body was read.
func (w *response) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the connection has deadlines.
func (w *response) SetWriteDeadline(time.Time) error { return nil }

// begin forgets the response before. The next one is to r, now.
func (w *response) begin(r *request, now time.Time) {
	if len(w.header) > 0 {
		clear(w.header)
	}
	w.fields, w.block, w.trailers, w.body = w.fields[:0], w.block[:0], w.trailers[:0], w.body[:0]
	w.state = state{head: r.http.Method == http.MethodHead, facts: r.facts, now: now}
}

// respond answers the request that was set.
func (c *conn) respond(id uint32, window int64, h http.Handler) {
	w := &c.response
	w.begin(&c.request, c.instant())
	if !c.call(h, w, c.request.http) {
		c.reset(id, http2.ErrCodeInternal)
		return
	}
	c.sendAnswer(id, window, w, c.read)
	c.parting = c.parting || w.closes
}

// instantFor is the number of requests that have the same instant: about 20 µs of decisions.
const instantFor = 32

// instant returns the present instant. It reads the clock for every few requests of a read.
func (c *conn) instant() time.Time {
	if c.answered++; c.answered%instantFor == 0 {
		c.read = time.Now()
	}
	return c.read
}

// sendAnswer sends an answer that is whole.
func (c *conn) sendAnswer(id uint32, window int64, w *response, now time.Time) {
	var flags http2.Flags
	if w.end() {
		flags = http2.FlagHeadersEndStream
	}
	from := c.beginBlock(id, flags)
	b := c.encoder.Append(fieldblock.AppendStatus(c.out, w.status), 0, c.date(now).Constant)
	for i, f := range w.fields {
		b = c.encoder.Append(b, i+1, f.Constant)
	}
	c.out = append(b, w.block...)
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
			c.srv.cfg.HTTP.ErrorLog.Printf("http: panic serving %v: %v\n%s", c.nc.RemoteAddr(), e, debug.Stack())
		}
	}()
	h.ServeHTTP(w, r)
	return true
}

// sendBody sends the body of an answer, and its trailer.
func (c *conn) sendBody(id uint32, window int64, w *response) {
	// Nearly all answers are sent at once, and need no blocked.
	if n := len(w.body); len(w.trailers) == 0 && int64(n) <= min(window, c.window) && n <= c.srv.settings.maxFrame {
		c.begin(http2.FrameData, http2.FlagDataEndStream, id, n)
		c.out = append(c.out, w.body...)
		c.window -= int64(n)
		return
	}
	w.block = w.block[:0]
	for _, name := range w.trailers {
		w.block = fieldblock.AppendValues(w.block, name, w.header[name])
	}
	b := blocked{id: id, window: window, data: w.body, ends: len(w.block) == 0, after: w.block}
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

// date returns the field of a second.
func (c *conn) date(now time.Time) *inline.Field {
	if at := now.Unix(); at != c.dateAt || c.dated == nil {
		c.dateAt, c.dated = at, c.srv.date(now)
	}
	return c.dated
}

// A dated is the date of a second.
type dated struct {
	at    int64
	field *inline.Field
}

// date returns the field of a second, which the connections share.
func (s *Server) date(now time.Time) *inline.Field {
	d := s.dated.Load()
	if at := now.Unix(); d == nil || d.at != at {
		d = &dated{at, inline.NewField("Date", now.UTC().Format(http.TimeFormat))}
		s.dated.Store(d)
	}
	return d.field
}
