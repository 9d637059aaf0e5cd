package httplimit

import (
	"net/http"
	"net/netip"
	"strconv"

	"github.com/weir-go/weir/internal/caller"
)

// AddressBehind is the Key of the client's address where proxies stand in
// front, which say in a header whom they got a request from: X-Forwarded-For,
// Forwarded (RFC 7239), or one with a single address such as X-Real-IP. Like
// Address, of IPv6 it is a network.
//
// Only what a trusted proxy has added counts. A header is read from its end: as
// long as the address there is trusted, the one before it is that of who asked
// that proxy. So nobody can pretend to be another by sending the header himself,
// provided that each proxy adds to the header that is named here, or replaces
// it. If an entry is no address, the address of who sent it is the client's. Of
// 32 proxies, the first is taken for the client. It panics if a network is none.
func AddressBehind(header string, trusted ...netip.Prefix) Key[netip.Addr] {
	header = http.CanonicalHeaderKey(header)
	networks := caller.Trust(trusted)
	if i := networks.Invalid(); i >= 0 {
		panic("httplimit: AddressBehind of a network that is none: number " + strconv.Itoa(i))
	}
	return func(r *http.Request) (netip.Addr, bool) {
		peer, ok := caller.ParseAddr(r.RemoteAddr)
		if !ok {
			return peer, false
		}
		return caller.Network(caller.Behind(peer, r.Header[header], header == "Forwarded", networks)), true
	}
}
