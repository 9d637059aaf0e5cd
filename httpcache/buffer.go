package httpcache

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/flight"
)

// A buffer is the ResponseWriter that collects a response, and completes it as
// net/http does. It refuses responses that must be streamed. Calls by goroutines
// of the handler after its end have no effect.
type buffer struct {
	head    bool
	max     int64
	live    http.Header   // for the handler
	refusal chan struct{} // closed when it refuses

	mu      sync.Mutex  // guards what follows, until ended
	header  http.Header // a copy at the time of WriteHeader
	status  int         // 0 before
	length  int64       // as declared; -1 if not
	written int64
	body    []byte
	refused bool
	ended   bool
}

func newBuffer(head bool, limit int64) *buffer {
	return &buffer{head: head, max: limit, live: make(http.Header), refusal: make(chan struct{})}
}

var (
	// errRefused is the error of Write if the response must be streamed.
	errRefused = errors.New("httpcache: the response is streamed, or too large to be kept: the handler is run again")
	errEnded   = errors.New("httpcache: written after the handler has returned")
	errBroken  = errors.New("httpcache: the handler wrote less than it had declared")
)

// serve runs a handler and calls done with its error. If the response was refused,
// a panic is ignored: httputil.ReverseProxy panics then.
func (b *buffer) serve(h http.Handler, r *http.Request, done func(error)) {
	err := flight.ErrGoexit
	defer func() {
		if p := recover(); p != nil {
			err = &flight.PanicError{Value: p, Stack: debug.Stack()}
		}
		done(b.end(err))
	}()
	h.ServeHTTP(b, r)
	b.WriteHeader(http.StatusOK)
	err = nil
}

// end records the end of the handler, with its error if any, and returns the error
// of its response.
func (b *buffer) end(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.live {
		if err == nil && strings.HasPrefix(name, http.TrailerPrefix) {
			b.refuseLocked()
		}
	}
	b.ended = true
	switch {
	case b.refused:
		return errRefused
	case err == nil && !b.head && !bodyless(b.status) && b.length > b.written:
		return errBroken
	}
	return err
}

func (b *buffer) refuseLocked() {
	if !b.refused {
		b.refused, b.body = true, nil
		close(b.refusal)
	}
}

func (b *buffer) Header() http.Header { return b.live }

func (b *buffer) WriteHeader(code int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writeHeaderLocked(code)
}

func (b *buffer) writeHeaderLocked(code int) {
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("httpcache: invalid WriteHeader code %v", code))
	}
	if b.ended || b.status != 0 || code < 200 && code != http.StatusSwitchingProtocols {
		return
	}
	b.status, b.header, b.length = code, canonicalHeader(b.live), -1
	if n, err := strconv.ParseInt(b.header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		b.length = n
	}
	kind, _, _ := strings.Cut(b.header.Get("Content-Type"), ";")
	switch {
	case strings.EqualFold(strings.TrimSpace(kind), "text/event-stream"), len(b.header["Trailer"]) > 0,
		!b.head && b.length > b.max:
		b.refuseLocked()
	case !b.head && b.length > 0:
		b.body = make([]byte, 0, min(b.length, DefaultMaxBody))
	}
}

// canonicalHeader returns a copy of a header with canonical names.
func canonicalHeader(h http.Header) http.Header {
	h = h.Clone()
	for name, values := range h {
		if canon := http.CanonicalHeaderKey(name); canon != name {
			delete(h, name)
			h[canon] = append(h[canon], values...)
		}
	}
	return h
}

// bodyless reports whether a response of the status has no body.
func bodyless(status int) bool {
	return status < 200 || status == http.StatusNoContent || status == http.StatusNotModified
}

func (b *buffer) Write(p []byte) (int, error) { return write(b, p) }

// WriteString is Write, for io.WriteString.
func (b *buffer) WriteString(s string) (int, error) { return write(b, s) }

func write[T string | []byte](b *buffer, p T) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writeHeaderLocked(http.StatusOK)
	if len(p) == 0 {
		return 0, nil
	}
	n := b.written + int64(len(p))
	switch {
	case b.refused:
		return 0, errRefused
	case b.ended:
		return 0, errEnded
	case bodyless(b.status):
		return 0, http.ErrBodyNotAllowed
	case b.length >= 0 && n > b.length:
		return 0, http.ErrContentLength
	case n > b.max:
		b.refuseLocked()
		return 0, errRefused
	}
	b.written = n
	if !b.head || len(b.body) < sniffed {
		b.body = append(b.body, p...)
	}
	return len(p), nil
}

// sniffed is how much of a body http.DetectContentType reads.
const sniffed = 512

// Flush is for handlers that need a http.Flusher. It sends nothing, but detects an
// event stream.
func (b *buffer) Flush() { b.WriteHeader(http.StatusOK) }

// hops are the headers of a single connection.
var hops = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// response returns the response, once the handler has ended.
func (b *buffer) response() *response {
	h := b.header
	for _, name := range append(canonical(h["Connection"]), hops...) {
		delete(h, name)
	}
	now := time.Now()
	if _, ok := h["Date"]; !ok {
		h["Date"] = []string{now.UTC().Format(http.TimeFormat)}
	}
	_, typed := h["Content-Type"]
	if !typed && h.Get("Content-Encoding") == "" && len(b.body) > 0 {
		h["Content-Type"] = []string{http.DetectContentType(b.body)}
	}
	switch {
	case bodyless(b.status):
		delete(h, "Content-Length")
	case !b.head || b.written > 0 && b.length < 0:
		h["Content-Length"] = []string{strconv.FormatInt(b.written, 10)}
	}
	if b.head {
		b.body = nil
	}
	if cap(b.body)-len(b.body) > len(b.body)/8 {
		b.body = bytes.Clone(b.body)
	}
	return newResponse(b.status, h, b.body, now)
}
