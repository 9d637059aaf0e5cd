package admission

import (
	"fmt"
	"net/netip"

	"github.com/weir-go/weir/internal/caller"
)

// A key function returns a key of a request, and whether the request has it.

// Address returns a key function for the network of the client at an address.
func Address[R any](peer func(R) (netip.Addr, bool)) func(R) (netip.Addr, bool) {
	return func(r R) (netip.Addr, bool) {
		a, ok := peer(r)
		return caller.Network(a), ok
	}
}

// AddressBehind returns a key function for the network of the client behind
// trusted proxies, which name it in a list: of addresses or, if forwarded is set,
// as in RFC 7239. It panics if a network is invalid.
func AddressBehind[R any](peer func(R) (netip.Addr, bool), list func(R) []string, forwarded bool, trusted []netip.Prefix) func(R) (netip.Addr, bool) {
	networks := caller.Trust(trusted)
	if i := networks.Invalid(); i >= 0 {
		panic(fmt.Sprintf("weir: AddressBehind: trusted[%d] is not a network", i))
	}
	return Address(func(r R) (netip.Addr, bool) {
		a, ok := peer(r)
		if !ok {
			return a, false
		}
		return caller.Behind(a, list(r), forwarded, networks), true
	})
}
