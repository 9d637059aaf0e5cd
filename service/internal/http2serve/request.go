package http2serve

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// A request is the http.Request of a connection. It is used again for each request that is answered
// here. Its header is made again only if the fields differ from those before.
type request struct {
	http   *http.Request
	url    url.URL
	header http.Header
	fields []*field // of header
	body   body
}

// A body is the body of a request.
type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

func (r *request) init(c *conn) {
	r.header = http.Header{}
	r.http = (&http.Request{
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: r.header, URL: &r.url, RemoteAddr: c.nc.RemoteAddr().String(),
	}).WithContext(c.ctx)
}

// set makes the request of a header list, and reports whether that is ordinary. If not, only
// net/http can judge it.
func (r *request) set(fields []*field, content []byte, ended bool) bool {
	n := 0 // pseudo fields
	var seen [contentLength]bool
	h := r.http
	h.Host = ""
	for ; n < len(fields) && fields[n].kind < contentLength; n++ {
		f := fields[n]
		if seen[f.kind] {
			return false
		}
		seen[f.kind] = true
		switch f.kind {
		case method:
			h.Method = f.value
		case path:
			h.RequestURI = f.value
		case authority:
			h.Host = f.value
		}
	}
	if !seen[method] || !seen[path] || !seen[scheme] || h.Method == "CONNECT" || strings.IndexByte(h.Host, '@') >= 0 {
		return false
	}
	if regular := fields[n:]; !slices.Equal(regular, r.fields) {
		if !r.setHeader(regular) {
			return false
		}
	}
	h.Body, h.ContentLength = http.NoBody, 0
	if !ended {
		r.body.Reset(content)
		h.Body, h.ContentLength = &r.body, int64(declared(fields))
	}
	return r.setURL(h.RequestURI)
}

// setHeader makes the header of fields that are not pseudo fields, if all are ordinary.
func (r *request) setHeader(fields []*field) bool {
	for i := range fields {
		k := fields[i].kind
		if k != regular && (k != contentLength || declared(fields[:i]) >= 0) {
			return false
		}
	}
	clear(r.header)
	for i := range fields {
		f := fields[i]
		r.header[f.canonical] = append(r.header[f.canonical], f.value)
	}
	r.fields = append(r.fields[:0], fields...)
	return true
}

// setURL parses the path.
func (r *request) setURL(text string) bool {
	if text == "" || text[0] != '/' {
		return false
	}
	if cut, ok := isPlain(text); ok {
		r.url = url.URL{Path: text[:cut]}
		if cut < len(text) {
			r.url.RawQuery = text[cut+1:]
		}
		return true
	}
	text = strings.Clone(text)
	u, err := url.ParseRequestURI(text)
	if err != nil || !httpguts.ValidHeaderFieldValue(text) {
		return false
	}
	r.url = *u
	return true
}

// declared returns the Content-Length of a header list, or -1.
func declared(fields []*field) int {
	for i := range fields {
		if fields[i].kind == contentLength {
			n, _ := strconv.Atoi(fields[i].value) // it is valid
			return n
		}
	}
	return -1
}
