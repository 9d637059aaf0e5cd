package httplimit

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weir-go/weir/internal/caller"
)

// A Key returns what tells the client of a request from others, or the like,
// and whether it is there. Whoever may choose a key has as many buckets as he
// likes: a header or a cookie is a key only where something in front has
// verified it.
type Key[K comparable] func(r *http.Request) (key K, ok bool)

// MaxKey is the longest text that is a key as it is, in bytes. Of a longer one,
// its SHA-256 is the key.
const MaxKey = caller.MaxKey

// Address is the Key of the peer's address. Of IPv6 it is the network of 64 bits,
// which is what one client has; an IPv4 address is the same in its IPv6 form.
func Address() Key[netip.Addr] {
	return func(r *http.Request) (netip.Addr, bool) {
		a, ok := caller.ParseAddr(r.RemoteAddr)
		return caller.Network(a), ok
	}
}

// Header is the Key of a request header's first value.
func Header(name string) Key[string] {
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		return func(r *http.Request) (string, bool) { return caller.Key(r.Host) }
	}
	return func(r *http.Request) (string, bool) {
		if values := r.Header[name]; len(values) > 0 {
			return caller.Key(values[0])
		}
		return "", false
	}
}

// Cookie is the Key of a cookie's value.
func Cookie(name string) Key[string] {
	return func(r *http.Request) (string, bool) {
		c, err := r.Cookie(name)
		if err != nil {
			return "", false
		}
		return caller.Key(c.Value)
	}
}

// APIKey is the Key of the X-Api-Key header or, without that, of Authorization,
// of which the scheme may be written in any case.
func APIKey() Key[string] { return First(Header("X-Api-Key"), authorization) }

func authorization(r *http.Request) (string, bool) {
	all := strings.TrimSpace(r.Header.Get("Authorization"))
	if all == "" {
		return "", false
	}
	scheme, credentials, _ := strings.Cut(all, " ")
	return caller.Key(strings.ToLower(scheme) + " " + strings.TrimSpace(credentials))
}

// Pattern is the Key of the route's pattern, which is there if the Middleware is
// around the handlers of routes, not around the router.
func Pattern() Key[string] {
	return func(r *http.Request) (string, bool) { return r.Pattern, r.Pattern != "" }
}

// Text is an address as text, to be put together with other Keys by First.
func Text(k Key[netip.Addr]) Key[string] {
	return func(r *http.Request) (string, bool) {
		a, ok := k(r)
		if !ok {
			return "", false
		}
		return a.String(), true
	}
}

// First is the first of keys that is there. The same text of two of them is not
// the same key.
func First(keys ...Key[string]) Key[string] {
	return func(r *http.Request) (string, bool) {
		for i, k := range keys {
			if text, ok := k(r); ok {
				return strconv.Itoa(i) + ":" + text, true
			}
		}
		return "", false
	}
}

// A Pair is two keys as one.
type Pair[A, B comparable] struct {
	A A
	B B
}

// Both is the Key of each pair of two: of a client and a route, say. It is
// there if both are.
func Both[A, B comparable](a Key[A], b Key[B]) Key[Pair[A, B]] {
	return func(r *http.Request) (Pair[A, B], bool) {
		x, first := a(r)
		y, second := b(r)
		return Pair[A, B]{x, y}, first && second
	}
}
