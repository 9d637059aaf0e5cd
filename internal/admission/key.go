package admission

import (
	"fmt"
	"net/netip"
	"strconv"

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

// Text returns a key function for an address as text.
func Text[R any](key func(R) (netip.Addr, bool)) func(R) (string, bool) {
	return func(r R) (string, bool) {
		a, ok := key(r)
		if !ok {
			return "", false
		}
		return a.String(), true
	}
}

// First returns a key function for the first of several keys that a request has.
// Equal texts of two key functions are different keys.
func First[R any, F ~func(R) (string, bool)](keys []F) func(R) (string, bool) {
	return func(r R) (string, bool) {
		for i, key := range keys {
			if text, ok := key(r); ok {
				return strconv.Itoa(i) + ":" + text, true
			}
		}
		return "", false
	}
}

// Both returns a key function for two keys together. A request has it if it has
// both.
func Both[R any, K comparable](a, b func(R) (K, bool)) func(R) ([2]K, bool) {
	return func(r R) ([2]K, bool) {
		first, hasFirst := a(r)
		second, hasSecond := b(r)
		return [2]K{first, second}, hasFirst && hasSecond
	}
}
