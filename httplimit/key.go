package httplimit

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/caller"
)

// A Key returns the bucket key of a request, and whether the request has one.
// Any function will do; this one limits routes:
//
//	func(r *http.Request) (string, bool) { return r.Pattern, r.Pattern != "" }
//
// A client that can choose its key has as many buckets as it likes. So use a
// header or a cookie as a key only if something in front has verified it.
type Key[K comparable] func(r *http.Request) (key K, ok bool)

// MaxKey is the length in bytes up to which a text is used as a key. Of a longer
// text, the SHA-256 is the key.
const MaxKey = caller.MaxKey

// Address is the Key of the peer's address. For IPv6 it is the network of 64 bits,
// the usual size for one client. An IPv4 address equals its IPv6 form.
func Address() Key[netip.Addr] { return admission.Address(peer) }

// AddressBehind is the Key of the client's address behind proxies, which they
// report in a header: X-Forwarded-For, Forwarded (RFC 7239), or one with a single
// address such as X-Real-IP. For IPv6 it is a network, as in Address.
//
// Only entries of trusted proxies count. The header is read from its end: if the
// address there is trusted, the entry before it is the address of that proxy's
// own client. So a client cannot pretend to be another by sending the header,
// provided that each proxy appends to the header, or replaces it. If an entry is
// not an address, the client is the proxy that sent it. At most 32 entries are
// read. AddressBehind panics if a network is invalid.
func AddressBehind(header string, trusted ...netip.Prefix) Key[netip.Addr] {
	header = http.CanonicalHeaderKey(header)
	list := func(r *http.Request) []string { return r.Header[header] }
	return admission.AddressBehind(peer, list, header == "Forwarded", trusted)
}

func peer(r *http.Request) (netip.Addr, bool) { return caller.ParseAddr(r.RemoteAddr) }

// Header is the Key of a request header's first value. For Authorization, the case
// of the scheme does not matter.
func Header(name string) Key[string] {
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		return func(r *http.Request) (string, bool) { return caller.Key(r.Host) }
	}
	return func(r *http.Request) (string, bool) {
		values := r.Header[name]
		if len(values) == 0 {
			return "", false
		}
		value := values[0]
		if name == "Authorization" {
			scheme, credentials, _ := strings.Cut(strings.TrimSpace(value), " ")
			value = strings.TrimSpace(strings.ToLower(scheme) + " " + strings.TrimSpace(credentials))
		}
		return caller.Key(value)
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

// Text is the Key of an address as text, for First and Both.
func Text(key Key[netip.Addr]) Key[string] { return admission.Text(key) }

// First is the Key of the first of several keys that a request has. Equal texts of
// two of them are different keys.
func First(keys ...Key[string]) Key[string] { return admission.First(keys) }

// Both is the Key of two keys together: a client and a tenant, say. A request has
// it if it has both.
func Both[K comparable](a, b Key[K]) Key[[2]K] { return admission.Both(a, b) }
