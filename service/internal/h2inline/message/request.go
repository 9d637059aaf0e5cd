// Package message has the request that a handler gets and the answer that it gives, apart from their connection: a
// Request is made of the fields of HTTP/2 or the text of HTTP/1.1, and a Response is written as either. Both are used
// again for the next message of a connection.
package message

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
)

// A Request is the http.Request of a connection. It is used again for each request that is answered
// here. Its header is made again only if the fields differ from those before.
type Request struct {
	HTTP   *http.Request
	url    url.URL
	header http.Header
	fields []*fieldblock.Field // that it was made of; none if those last set are not ordinary
	pseudo int                 // how many of them come before those of header
	path   int                 // the index of the path
	Length int                 // the Content-Length, or -1; of HTTP/1.1, of the body
	body   body

	// Of HTTP/1.1.
	Lines string // of header
	host  string
}

// A body is the body of a request.
type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

// Init makes a request without anything of those before.
func (r *Request) Init(ctx context.Context, remote net.Addr, http1 bool) {
	*r = Request{header: http.Header{}}
	r.HTTP = (&http.Request{
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: r.header, URL: &r.url, RemoteAddr: remote.String(),
	}).WithContext(ctx)
	if http1 {
		r.HTTP.Proto, r.HTTP.ProtoMajor, r.HTTP.ProtoMinor = "HTTP/1.1", 1, 1
	}
}

// Set makes the request of a header list, and reports whether that is ordinary. If not, only
// net/http can judge it.
func (r *Request) Set(fields []*fieldblock.Field, ended bool) bool {
	h := r.HTTP
	if r.resembles(fields) {
		h.RequestURI = fields[r.path].Value
	} else if !r.setFields(fields) {
		r.fields = r.fields[:0]
		return false
	}
	h.Body, h.ContentLength = http.NoBody, 0
	if !ended {
		h.Body, h.ContentLength = &r.body, int64(r.Length)
	}
	return r.setURL(h.RequestURI)
}

// resembles reports whether a header list differs in the path alone from the one before.
func (r *Request) resembles(fields []*fieldblock.Field) bool {
	if len(fields) != len(r.fields) || len(fields) == 0 || fields[r.path].Kind != fieldblock.Path {
		return false
	}
	for i, f := range fields {
		if f != r.fields[i] && i != r.path {
			return false
		}
	}
	return true
}

// setFields makes all but the URL and the body, if all fields are ordinary.
func (r *Request) setFields(fields []*fieldblock.Field) bool {
	n := 0 // pseudo fields
	var seen [fieldblock.ContentLength]bool
	h := r.HTTP
	h.Host = ""
	for ; n < len(fields) && fields[n].Kind < fieldblock.ContentLength; n++ {
		f := fields[n]
		if seen[f.Kind] {
			return false
		}
		seen[f.Kind] = true
		switch f.Kind {
		case fieldblock.Method:
			h.Method = f.Value
		case fieldblock.Path:
			h.RequestURI, r.path = f.Value, n
		case fieldblock.Authority:
			h.Host = f.Value
		}
	}
	if !seen[fieldblock.Method] || !seen[fieldblock.Path] || !seen[fieldblock.Scheme] || h.Method == "CONNECT" || strings.IndexByte(h.Host, '@') >= 0 {
		return false
	}
	regular := fields[n:]
	if (len(r.fields) == 0 || !slices.Equal(regular, r.fields[r.pseudo:])) && !r.setHeader(regular) {
		return false
	}
	r.fields, r.pseudo = append(r.fields[:0], fields...), n
	return true
}

// SetBody sets the body, which Set does not have.
func (r *Request) SetBody(b []byte) { r.body.Reset(b) }

// setHeader makes the header of fields that are not pseudo fields, if all are ordinary.
func (r *Request) setHeader(fields []*fieldblock.Field) bool {
	for i := range fields {
		k := fields[i].Kind
		if k != fieldblock.Regular && (k != fieldblock.ContentLength || declared(fields[:i]) >= 0) {
			return false
		}
	}
	r.newHeader()
	r.Length = declared(fields)
	for i := range fields {
		f := fields[i]
		r.header[f.Canonical] = append(r.header[f.Canonical], f.Value)
	}
	return len(r.header["Te"]) <= 1
}

// newHeader begins another header. Requests that have the same have the same map.
func (r *Request) newHeader() {
	r.header = http.Header{}
	r.HTTP.Header = r.header
}

// setURL parses the path.
func (r *Request) setURL(text string) bool {
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
func declared(fields []*fieldblock.Field) int {
	for i := range fields {
		if fields[i].Kind == fieldblock.ContentLength {
			n, _ := strconv.Atoi(fields[i].Value) // it is valid
			return n
		}
	}
	return -1
}

// plain has the bytes of paths that url.Parse neither decodes nor remembers in RawPath.
var plain = func() (set [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~$&+,/:;=@") {
		set[c] = true
	}
	return set
}()

// isPlain reports whether a path and a query can be used without url.Parse.
func isPlain(text string) (cut int, ok bool) {
	for i := range len(text) {
		if plain[text[i]] {
			continue
		}
		if text[i] != '?' || i+1 == len(text) {
			return 0, false
		}
		for _, c := range []byte(text[i:]) {
			if c <= ' ' || c >= 0x7f {
				return 0, false
			}
		}
		return i, true
	}
	return len(text), true
}

// Clone returns a copy that can outlive the request.
func (r *Request) Clone(ctx context.Context) *http.Request {
	h := r.HTTP.WithContext(ctx)
	h.RequestURI, h.Header = strings.Clone(h.RequestURI), r.header.Clone()
	u := r.url
	u.Path, u.RawPath, u.RawQuery = strings.Clone(u.Path), strings.Clone(u.RawPath), strings.Clone(u.RawQuery)
	h.URL = &u
	return h
}
