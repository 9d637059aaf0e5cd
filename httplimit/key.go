package httplimit

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// A key is a hash of what tells responses apart: nobody can find two requests
// with the same, and it takes the same memory however long they are.
type key [sha256.Size]byte

// traits of a request are part of its key.
type traits byte

const (
	credentials traits = 1 << iota
	overTLS
)

func (c *Cache) traits(r *http.Request) (t traits) {
	if len(r.Header["Authorization"]) > 0 || !c.cfg.IgnoreCookies && len(r.Header["Cookie"]) > 0 {
		t |= credentials
	}
	if r.TLS != nil {
		t |= overTLS
		if len(r.TLS.PeerCertificates) > 0 {
			t |= credentials
		}
	}
	return t
}

// cacheable reports whether the response to a request may be kept, as far as
// the request tells.
func cacheable(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.ContentLength == 0 && len(r.TransferEncoding) == 0 && len(r.Header["Upgrade"]) == 0 && plain(r) && !wantsEvents(r)
}

// wantsEvents reports whether a client asks for an event stream.
func wantsEvents(r *http.Request) bool {
	for _, list := range r.Header["Accept"] {
		for one := range strings.SplitSeq(list, ",") {
			kind, _, _ := strings.Cut(one, ";")
			if strings.EqualFold(textproto.TrimString(kind), "text/event-stream") {
				return true
			}
		}
	}
	return false
}

// plain reports whether a request's target says no more than a path and the
// host that is meant anyway. What else it says is in no key.
func plain(r *http.Request) bool {
	return r.URL.Opaque == "" && r.URL.User == nil && (r.URL.Host == "" || r.URL.Host == r.Host)
}

// key returns the key of the responses of a handler to requests such as r.
func (c *Cache) key(r *http.Request, handler uint64, method string, t traits) (k key, ok bool) {
	var room [512]byte
	b := binary.BigEndian.AppendUint64(room[:0], handler)
	b = appendText(append(b, byte(t)), method)
	if c.cfg.Key != nil {
		own, ok := c.cfg.Key(r)
		if !ok {
			return k, false
		}
		b = appendText(b, own)
	} else {
		b = appendText(appendText(b, r.Host), r.URL.Path)
		b = appendText(appendText(b, r.URL.RawPath), r.URL.RawQuery)
	}
	return sha256.Sum256(c.appendValues(b, r, c.vary)), true
}

// variant returns the key of the responses to requests with the same values of
// the headers that a mark names, among those with the same base.
func (c *Cache) variant(base key, m *mark, r *http.Request) key {
	var room [512]byte
	b := binary.BigEndian.AppendUint64(append(room[:0], base[:]...), m.salt)
	return sha256.Sum256(c.appendValues(b, r, m.names))
}

// appendText appends a string so that what follows cannot be taken for a part
// of it.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (c *Cache) appendValues(b []byte, r *http.Request, names []string) []byte {
	for _, name := range names {
		values := r.Header[name]
		if slices.Contains(conditions, name) || c.cfg.IgnoreCookies && name == "Cookie" {
			values = nil // the handler does not see them
		}
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, v := range values {
			b = appendText(b, textproto.TrimString(v))
		}
	}
	return b
}

// conditions are the headers that the Cache heeds instead of the handler.
var conditions = []string{"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range"}

func conditional(r *http.Request) bool {
	for _, name := range conditions {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// canonical returns the names in lists of header names, sorted.
func canonical(lists []string) (names []string) {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = textproto.TrimString(name); name != "" {
				names = append(names, http.CanonicalHeaderKey(name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// text is the key as CacheConfig.PerKey gets it.
func (c *Cache) text(r *http.Request) (string, bool) {
	if c.cfg.Key != nil {
		return c.cfg.Key(r)
	}
	url := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return r.Method + " " + r.Host + url, true
}
