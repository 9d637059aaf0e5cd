package clients

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

type connKey struct{}

// ConnContext is the ConnContext hook of an http.Server of connections.
func ConnContext(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, nc)
}

// PassReason passes the reason phrase of an answer to the client, before the header is written. The status is a code
// and a phrase. That of net/http needs nothing.
func (c *Client) PassReason(status string) {
	code, phrase, _ := strings.Cut(status, " ")
	if n, err := strconv.Atoi(code); err != nil || phrase == http.StatusText(n) && phrase != "" || !httpguts.ValidHeaderFieldValue(phrase) {
		return
	}
	if c.conn != nil {
		c.conn.reason.Store(&reason{code + " ", phrase})
	}
}

// StatusField is a header field for the status of an answer on its way through a cache. Its name is not valid, so that no
// answer of an origin has it, and no client gets it.
const StatusField = ":status"

// RestoreReason returns a writer that passes the reason phrase of an answer on from its StatusField.
func (c *Client) RestoreReason(w http.ResponseWriter) http.ResponseWriter { return &reasonWriter{w, c} }

type reasonWriter struct {
	http.ResponseWriter
	client *Client
}

// WriteHeader implements http.ResponseWriter.
func (w *reasonWriter) WriteHeader(code int) {
	h := w.Header()
	if status := h[StatusField]; len(status) == 1 && strings.HasPrefix(status[0], strconv.Itoa(code)) {
		w.client.PassReason(status[0])
	}
	delete(h, StatusField)
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (w *reasonWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A reason is the reason phrase of the next answer of a connection with its status.
type reason struct {
	code   string // and a space
	phrase string
}

// statusLine is how net/http begins a status line, with either minor version.
const statusLine = "HTTP/1.x "

// put returns what net/http writes with the phrase in the status line. It reports whether b begins with that
// line: 100 Continue may precede it.
func (r *reason) put(b []byte) (with []byte, ok bool) {
	if len(b) < len(statusLine) || !bytes.HasPrefix(b[len(statusLine):], []byte(r.code)) {
		return b, false
	}
	end := bytes.IndexByte(b, '\r')
	if end < 0 {
		return b, false
	}
	with = append(with, b[:len(statusLine)+len(r.code)]...)
	with = append(with, r.phrase...)
	return append(with, b[end:]...), true
}
