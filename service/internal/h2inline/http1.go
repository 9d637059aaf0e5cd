package h2inline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/net/http/httpguts"
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
	c.request.init(c)
	c.response.header = http.Header{}
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
		n, ordinary := c.request.parse(c.buf[c.r:c.w])
		if ordinary && n == 0 {
			break
		}
		if !ordinary || !c.srv.fast(c.request.http) {
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
	if len(c.request.lines) > maxRemembered {
		c.request.init(c)
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
	for n := 0; n < 4 && c.r < c.w && c.request.http.Method == http.MethodPost && (c.buf[c.r] == '\r' || c.buf[c.r] == '\n'); n++ {
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

// methods has the methods of ordinary requests.
var methods = map[string]string{"GET": "GET", "POST": "POST", "PUT": "PUT", "DELETE": "DELETE", "PATCH": "PATCH"}

// parse makes the request at the start of b, and returns its length. That is zero if it has not come whole. Only
// net/http can judge a request that is not ordinary.
func (r *request) parse(b []byte) (n int, ordinary bool) {
	end := bytes.Index(b, []byte("\r\n\r\n")) + len("\r\n")
	if end < len("\r\n") {
		return 0, len(b) == 0 || 'A' <= b[0] && b[0] <= 'Z'
	}
	lineEnd := bytes.IndexByte(b, '\n') + 1
	line, ok := bytes.CutSuffix(b[:lineEnd], []byte(" HTTP/1.1\r\n"))
	method, target, spaced := bytes.Cut(line, []byte(" "))
	h := r.http
	h.Method = methods[string(method)]
	if !ok || !spaced || h.Method == "" || bytes.IndexByte(target, ' ') >= 0 {
		return 0, false
	}
	if lines := b[lineEnd:end]; (string(lines) != r.lines || r.lines == "") && !r.setLines(string(lines)) {
		return 0, false
	}
	from := end + len("\r\n")
	n = from + r.length
	if len(b) < n {
		return 0, n <= mostRead
	}
	h.Host, h.RequestURI = r.host, unsafe.String(unsafe.SliceData(target), len(target))
	h.Body, h.ContentLength = http.NoBody, int64(r.length)
	if r.length > 0 {
		r.body.Reset(b[from:n])
		h.Body = &r.body
	}
	return n, r.setURL(h.RequestURI)
}

// setLines makes the header of lines that end with CRLF, and reports whether it is ordinary.
func (r *request) setLines(text string) bool {
	r.newHeader()
	r.lines, r.host, r.length = text, "", 0
	hosts := 0
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return false
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		switch key {
		case "Host":
			hosts++
			r.host = value
			continue
		case "Content-Length":
			length, err := strconv.ParseUint(value, 10, 31)
			if err != nil || r.header[key] != nil {
				return false
			}
			r.length = int(length)
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return false
			}
		case "Expect", "Http2-Settings", "Pragma", "Trailer", "Transfer-Encoding", "Upgrade":
			return false
		}
		r.header[key] = append(r.header[key], value)
	}
	return hosts == 1 && httpguts.ValidHostHeader(r.host)
}

// respondHTTP1 answers the request that was parsed.
func (c *conn) respondHTTP1() next {
	w := &c.response
	defer w.forget()
	if !c.call(c.srv.http.Handler, w, c.request.http) {
		return ended
	}
	w.WriteHeader(http.StatusOK)
	c.openOut()
	b := append(c.out, "HTTP/1.1 "...)
	b = append(strconv.AppendInt(b, int64(w.status), 10), ' ')
	if text := http.StatusText(w.status); text != "" {
		b = append(b, text...)
	} else {
		b = strconv.AppendInt(append(b, "status code "...), int64(w.status), 10)
	}
	b = append(b, "\r\n"...)
	for i := range w.fields {
		f := &w.fields[i]
		if name := f.name.Canonical; name != "Content-Length" && name != "Transfer-Encoding" {
			b = appendLine(b, name, f.value)
		}
	}
	b = appendLine(b, "Date", c.date(c.read))
	chunked := len(w.trailers) > 0 || w.flushed
	if !w.bodyless() {
		if !w.typed && len(w.body) > 0 {
			b = appendLine(b, "Content-Type", http.DetectContentType(w.body))
		}
		if chunked {
			b = appendLine(b, "Transfer-Encoding", "chunked")
		} else {
			b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(w.body)), 10)
			b = append(b, "\r\n"...)
		}
	}
	if w.closes {
		b = appendLine(b, "Connection", "close")
	}
	b = append(b, "\r\n"...)
	switch {
	case w.bodyless():
	case chunked:
		b = appendChunks(b, w)
	default:
		b = append(b, w.body...)
	}
	c.out = b
	if w.closes {
		return hangUp
	}
	return readOn
}

// appendChunks appends the body of an answer with trailers.
func appendChunks(b []byte, w *response) []byte {
	if len(w.body) > 0 {
		b = append(strconv.AppendInt(b, int64(len(w.body)), 16), "\r\n"...)
		b = append(append(b, w.body...), "\r\n"...)
	}
	b = append(b, "0\r\n"...)
	for _, name := range w.trailers {
		for _, value := range w.header[name] {
			b = appendLine(b, name, value)
		}
	}
	return append(b, "\r\n"...)
}

// appendLine appends a header line. Line breaks in a value become spaces, as in net/http.
func appendLine(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	from := len(b)
	b = append(b, value...)
	for i, c := range b[from:] {
		if c == '\r' || c == '\n' {
			b[from+i] = ' '
		}
	}
	return append(b, "\r\n"...)
}
