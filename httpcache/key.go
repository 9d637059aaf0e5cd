package httpcache

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// A key is a cryptographic hash of everything that distinguishes responses: no
// client can construct two requests with the same key, and its size does not
// depend on the request.
type key [sha256.Size]byte

// traits of a request are part of its key.
type traits byte

const (
	credentials traits = 1 << iota
	overTLS
	forwardedTLS // a proxy says so, or the client: it is no overTLS
)

func (c *Cache) traits(r *http.Request) (t traits) {
	if len(r.Header["Authorization"]) > 0 || !c.cfg.IgnoreCookies && len(r.Header["Cookie"]) > 0 {
		t |= credentials
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		t |= credentials
	}
	if r.TLS != nil {
		t |= overTLS
	}
	if proto := r.Header["X-Forwarded-Proto"]; len(proto) == 1 && strings.EqualFold(proto[0], "https") {
		t |= forwardedTLS
	}
	return t
}

// cacheable reports whether the request allows that its response is kept.
func cacheable(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.ContentLength == 0 && len(r.TransferEncoding) == 0 && !upgrades(r) && plain(r) && !wantsEvents(r)
}

// upgrades reports whether a client asks for another protocol, besides an offer of
// HTTP/2, which servers commonly decline.
func upgrades(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Upgrade"], func(to string) bool {
		return !strings.EqualFold(textproto.TrimString(to), "h2c")
	})
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

// plain reports whether a request's target has only a path, a query and the Host.
// Anything else would be in no key.
func plain(r *http.Request) bool {
	return r.URL.Opaque == "" && r.URL.User == nil && (r.URL.Host == "" || r.URL.Host == r.Host)
}

// A name is the result of Config.Key for a request; "" without Config.Key.
type name struct {
	text string
	ok   bool
}

func (c *Cache) name(r *http.Request) name {
	if c.cfg.Key == nil {
		return name{ok: true}
	}
	text, ok := c.cfg.Key(r)
	return name{text, ok}
}

// limited returns the key that Config.PerKey gets for a request.
func (c *Cache) limited(r *http.Request, n name) name {
	if c.cfg.Key != nil || c.cfg.PerKey == nil {
		return n
	}
	url := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return name{r.Method + " " + r.Host + url, true}
}

// key returns the key of the responses of a handler to requests like r, with the
// name n.
func (c *Cache) key(r *http.Request, n name, handler uint64, method string, t traits) key {
	var room [512]byte
	b := binary.BigEndian.AppendUint64(room[:0], handler)
	b = appendText(append(b, byte(t)), method)
	if c.cfg.Key != nil {
		b = appendText(b, n.text)
	} else {
		b = appendText(appendText(b, r.Host), r.URL.Path)
		b = appendText(appendText(b, r.URL.RawPath), r.URL.RawQuery)
	}
	return sha256.Sum256(c.appendValues(b, r, c.vary))
}

// keys returns all keys of the responses to requests like r.
func (c *Cache) keys(r *http.Request, n name) (keys []key) {
	if !n.ok {
		return nil
	}
	for id := range c.handlers.Load() {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for t := traits(0); t <= credentials|overTLS|forwardedTLS; t++ {
				keys = append(keys, c.key(r, n, id+1, method, t))
			}
		}
	}
	return keys
}

// variant returns the key of the responses to requests with the same values of
// the headers that a mark names, among those with the same base.
func (c *Cache) variant(base key, m *mark, r *http.Request) key {
	var room [512]byte
	b := binary.BigEndian.AppendUint64(append(room[:0], base[:]...), m.salt)
	return sha256.Sum256(c.appendValues(b, r, m.names))
}

// appendText appends a string with its length, so that the result is unambiguous.
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

// conditions are the headers that the Cache evaluates instead of the handler.
var conditions = []string{"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range"}

func conditional(r *http.Request) bool {
	return slices.ContainsFunc(conditions, func(name string) bool { return len(r.Header[name]) > 0 })
}

// canonical returns the names in lists of header names, sorted, as copies that do
// not hold the lists.
func canonical(lists []string) (names []string) {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = textproto.TrimString(name); name != "" {
				names = append(names, strings.Clone(http.CanonicalHeaderKey(name)))
			}
		}
	}
	slices.Sort(names)
	return slices.Clone(slices.Compact(names))
}
