package admission

import (
	"fmt"
	"net/netip"

	"github.com/weir-go/weir/internal/caller"
)

// A key function returns a key of a request, and whether the request has it.

// Address returns a key function for the client at an address.
func Address[R any](peer func(R) caller.Peer) func(R) (netip.Addr, bool) {
	return func(r R) (netip.Addr, bool) {
		a := peer(r).Addr
		return caller.Client(a), a.IsValid()
	}
}

// AddressBehind returns a key function for the client behind trusted proxies, which name it in a list: of
// addresses or, if forwarded is set, as in RFC 7239. It panics if a network is invalid.
func AddressBehind[R any](peer func(R) caller.Peer, list func(R) []string, forwarded bool, networks []netip.Prefix) func(R) (netip.Addr, bool) {
	if i := caller.Invalid(networks); i >= 0 {
		panic(fmt.Sprintf("weir: AddressBehind: trusted[%d] is not a network", i))
	}
	trusted := caller.Trust(networks, false)
	return Address(func(r R) caller.Peer { return caller.Behind(peer(r), list(r), forwarded, trusted) })
}
