// Package mismatch explains why a connection fails to a server that is not what its URL says: it
// serves TLS or does not, or is another program than weir serve.
package mismatch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// Explain returns an error that says what is wrong with the server at a URL, and what to do, if err
// shows that; else err.
func Explain(to *url.URL, err error) error {
	if err == nil {
		return nil
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	if op, is := errors.AsType[*net.OpError](err); is && op.Op != "remote error" && !ended { // that is an alert of TLS
		return err
	}
	text, host := err.Error(), to.Host
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch secure := to.Scheme == "https"; {
	case secure && (plain || has("first record does not look like a TLS handshake", "server gave HTTP response to HTTPS client")):
		return fmt.Errorf("%s does not serve TLS: give http://%s: %w", host, host, err)
	case !secure && has(`malformed HTTP response "\x15\x03`, "HTTP request to an HTTPS server", "HTTP request was sent to HTTPS port"):
		return fmt.Errorf("%s serves TLS: give https://%s: %w", host, host, err)
	case secure && has("unexpected ALPN protocol", "no application protocol"):
		return fmt.Errorf("%s does not speak HTTP/2 over TLS: it is no weir serve, or a proxy in front of it needs HTTP/2: %w", host, err)
	case has("http2: frame too large", "http2: failed reading the frame payload", "looked like an HTTP/1.1 header", "http2: client conn"):
		return fmt.Errorf("%s does not speak HTTP/2 without TLS: it serves TLS (then give https://%s), or is no weir serve, or a proxy that speaks only HTTP/1.1: %w", host, host, err)
	case !secure && ended:
		return fmt.Errorf("%s ends the connection without an answer: if it does so each time, it serves TLS (then give https://%s), or is no weir serve: %w", host, host, err)
	case has("malformed HTTP"):
		return fmt.Errorf("%s does not speak HTTP: it is no weir serve: %w", host, err)
	}
	return err
}

// maxText bounds the text of an answer, in bytes.
const maxText = 120

// Text returns the beginning of an answer in one line, without tags of HTML, for an error.
func Text(body string) string {
	var b strings.Builder
	html, tag := strings.HasPrefix(strings.TrimSpace(body), "<"), false
	for _, r := range strings.ToValidUTF8(body, "") {
		switch {
		case r == '<' && html:
			tag = true
		case r == '>' && tag:
			tag = false
			b.WriteByte(' ')
		case !tag:
			b.WriteRune(r)
		}
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
