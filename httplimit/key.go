package httplimit

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/caller"
)

// MaxKey is the length in bytes up to which a text is used as a key. Of a longer
// text, the SHA-256 is the key.
const MaxKey = 256

var _ [0]struct{} = [MaxKey - caller.MaxKey]struct{}{} // they are equal

// Address returns a key function for PerKey: the peer's address. For IPv6 the key is
// the network of 64 bits, the usual size for one client. An IPv4 address equals its
// IPv6 form.
func Address() func(*http.Request) (netip.Addr, bool) { return admission.Address(peer) }

// AddressBehind returns a key function for PerKey: the client's address behind
// proxies, which they report in a header: X-Forwarded-For, Forwarded (RFC 7239), or
// one with a single address such as X-Real-IP. For IPv6 it is a network, as in
// Address.
//
// Only entries of trusted proxies count. The header is read from its end: if the
// address there is trusted, the entry before it is the address of that proxy's
// own client. So a client cannot pretend to be another by sending the header,
// provided that each proxy appends to the header, or replaces it. If an entry is
// not an address, the client is the proxy that sent it. At most 32 entries are
// read. AddressBehind panics if a network is invalid.
func AddressBehind(header string, trusted ...netip.Prefix) func(*http.Request) (netip.Addr, bool) {
	header = http.CanonicalHeaderKey(header)
	list := func(r *http.Request) []string { return r.Header[header] }
	return admission.AddressBehind(peer, list, header == "Forwarded", trusted)
}

func peer(r *http.Request) (netip.Addr, bool) { return caller.ParseAddr(r.RemoteAddr) }

// Header returns a key function for PerKey: a request header's first value. For
// Authorization, the case of the scheme does not matter.
func Header(name string) func(*http.Request) (string, bool) {
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
