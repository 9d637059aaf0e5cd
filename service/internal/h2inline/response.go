package h2inline

import (
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
)

// A response is the http.ResponseWriter of a connection. It is used again for each request that is
// answered here.
type response struct {
	header   http.Header
	names    []*fieldblock.Name // in header once; the order of fields
	fields   []field            // of the header, without the status
	trailers []string           // their names
	body     []byte
	state
}

// A field is a header field of an answer.
type field struct {
	name  *fieldblock.Name
	value string
}

// A state describes a response so far.
type state struct {
	status  int  // 0 before the header
	typed   bool // there is a Content-Type
	sized   bool // there is a Content-Length
	closes  bool // the client is asked to leave
	flushed bool // the length was not known with the header
	head    bool // the request is HEAD: the body is not sent
}

// Header returns the header fields of the answer.
func (w *response) Header() http.Header { return w.header }

// maxNames bounds the names that are remembered for the next answer.
const maxNames = 16

// WriteHeader keeps the header as it is now.
func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	left := len(w.header)
	for i := 0; i < len(w.names) && left > 0; i++ {
		if values, ok := w.header[w.names[i].Canonical]; ok {
			w.add(w.names[i], values)
			left--
		}
	}
	if left == 0 {
		return
	}
	known := w.names
	for canonical, values := range w.header {
		if slices.ContainsFunc(known, func(n *fieldblock.Name) bool { return n.Canonical == canonical }) {
			continue
		}
		if name := fieldblock.NameOf(canonical); name != nil {
			if len(w.names) < maxNames {
				w.names = append(w.names, name)
			}
			w.add(name, values)
		}
	}
}

// add adds the fields with a name to the header.
func (w *response) add(name *fieldblock.Name, values []string) {
	switch name.Canonical {
	case "Connection":
		w.closes = len(values) > 0 && values[0] == "close"
		return
	case "Trailer":
		w.trailers = append(w.trailers, values...)
	case "Content-Type":
		w.typed = true
	case "Content-Length":
		w.sized = true
	}
	for _, value := range values {
		w.fields = append(w.fields, field{name, value})
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

// Names of fields that a handler need not set.
var (
	contentType = fieldblock.NameOf("Content-Type")
	date        = fieldblock.NameOf("Date")
)

// sizedBody bounds the bodies to which net/http adds a Content-Length.
const sizedBody = 4 << 10

// end completes the header, but for its length. It reports whether there is no more than that.
func (w *response) end() bool {
	w.WriteHeader(http.StatusOK)
	if !w.bodyless() && !w.typed && len(w.body) > 0 {
		w.fields = append(w.fields, field{contentType, http.DetectContentType(w.body)})
	}
	return w.head || len(w.body) == 0 && len(w.trailers) == 0
}

// Flush ends the header. An answer is sent when it is whole.
func (w *response) Flush() {
	w.WriteHeader(http.StatusOK)
	w.flushed = true
}

// SetReadDeadline does nothing: the whole body was read.
func (w *response) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the connection has deadlines.
func (w *response) SetWriteDeadline(time.Time) error { return nil }

// forget drops the response, with what its handler has made for it.
func (w *response) forget() {
	clear(w.header)
	clear(w.fields)
	w.fields, w.trailers, w.body, w.state = w.fields[:0], w.trailers[:0], w.body[:0], state{}
}

// respond answers the request that was set.
func (c *conn) respond(id uint32, window int64, h http.Handler) {
	w := &c.response
	w.head = c.request.http.Method == http.MethodHead
	if !c.call(h, w, c.request.http) {
		c.reset(id, http2.ErrCodeInternal)
	} else {
		c.sendAnswer(id, window, w, c.read)
		c.parting = c.parting || w.closes
	}
	w.forget()
}

// sendAnswer sends an answer that is whole.
func (c *conn) sendAnswer(id uint32, window int64, w *response, now time.Time) {
	var flags http2.Flags
	if w.end() {
		flags = http2.FlagHeadersEndStream
	}
	from := c.beginBlock(id, flags)
	b := c.encoder.Append(fieldblock.AppendStatus(c.out, w.status), 0, date, c.date(now))
	for i := range w.fields {
		b = c.encoder.Append(b, i+1, w.fields[i].name, w.fields[i].value)
	}
	if !w.bodyless() && !w.sized && !w.flushed && len(w.body) <= sizedBody && (len(w.body) > 0 || !w.head) {
		b = fieldblock.AppendContentLength(b, len(w.body))
	}
	c.out = b
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
func (c *conn) sendBody(id uint32, window int64, w *response) {
	// Nearly all answers are sent at once, and need no blocked.
	if n := len(w.body); len(w.trailers) == 0 && int64(n) <= min(window, c.window) && n <= c.srv.settings.maxFrame {
		c.begin(http2.FrameData, http2.FlagDataEndStream, id, n)
		c.out = append(c.out, w.body...)
		c.window -= int64(n)
		return
	}
	c.trailer = c.trailer[:0]
	for _, name := range w.trailers {
		for _, value := range w.header[name] {
			if name := fieldblock.NameOf(name); name != nil {
				c.trailer = name.Append(c.trailer, value)
			}
		}
	}
	b := blocked{id: id, window: window, data: w.body, ends: len(c.trailer) == 0, after: c.trailer}
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

// date returns the date of an instant.
func (c *conn) date(now time.Time) string {
	if at := now.Unix(); at != c.dateAt || c.dated == "" {
		c.dateAt, c.dated = at, c.srv.date(now)
	}
	return c.dated
}

// A dated is the date of a second.
type dated struct {
	at   int64
	text string
}

// date returns the date of an instant. The connections share it.
func (s *Server) date(now time.Time) string {
	d := s.dated.Load()
	if at := now.Unix(); d == nil || d.at != at {
		d = &dated{at, now.UTC().Format(http.TimeFormat)}
		s.dated.Store(d)
	}
	return d.text
}
