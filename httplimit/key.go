package httplimit

import (
	"net"
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
// the network of 64 bits, the usual size for one client. If an IPv6 address has an IPv4 address in it,
// because it is mapped, translated (64:ff9b::/96), or tunnelled (6to4, Teredo), that is
// the key. A peer at a Unix socket has no address, whatever RemoteAddr says, and no key.
func Address() func(*http.Request) (netip.Addr, bool) { return admission.Address(peer) }

// AddressBehind returns a key function for PerKey: the client's address behind
// proxies, which they report in a header: X-Forwarded-For, Forwarded (RFC 7239), or
// one with a single address such as X-Real-IP. The key is made of it as in
// Address.
//
// Only entries of trusted proxies count. The header is read from its end: if the
// address there is trusted, the entry before it is the address of that proxy's
// own client. So a client cannot pretend to be another by sending the header,
// provided that each proxy appends to the header, or replaces it. If an entry is
// not an address, such as unknown or an obfuscated identifier of RFC 7239, the client is the proxy that sent it. At most 32 entries are
// read. AddressBehind panics if a network is invalid.
//
// A proxy that connects to a Unix socket has no address. It is trusted if a network contains
// 127.0.0.1 or ::1, since it runs on this machine. If it is not trusted, or names no
// client, the request has no key.
func AddressBehind(header string, trusted ...netip.Prefix) func(*http.Request) (netip.Addr, bool) {
	header = http.CanonicalHeaderKey(header)
	list := func(r *http.Request) []string { return r.Header[header] }
	return admission.AddressBehind(peer, list, header == "Forwarded", trusted)
}

// peer returns the peer of a request.
func peer(r *http.Request) caller.Peer {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return caller.PeerAt(r.RemoteAddr, local)
}

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
