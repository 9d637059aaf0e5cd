// Package caller tells who asks, from what a protocol says: an address, behind
// proxies or not; a key of bounded size; how important the request is.
package caller

import (
	"net/netip"
	"slices"
)

// Network is the part of an address that one client has: of IPv6 the network of
// 64 bits.
func Network(a netip.Addr) netip.Addr {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// ParseAddr parses an address with or without a port, and an IPv6 one with or
// without brackets. It has no zone, and IPv4 is IPv4.
func ParseAddr(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		s = s[1 : len(s)-1]
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap().WithZone(""), err == nil
}

// Networks are those whose word counts.
type Networks []netip.Prefix

// Trust returns the Networks, of which those of IPv4 are so also if they were
// written in the IPv6 form.
func Trust(networks []netip.Prefix) Networks {
	ns := slices.Clone(networks)
	for i, p := range ns {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			ns[i] = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
	}
	return ns
}

// Invalid returns the number of the first that is no network, or -1.
func (ns Networks) Invalid() int {
	return slices.IndexFunc(ns, func(p netip.Prefix) bool { return !p.IsValid() })
}

// Contain reports whether an address, as ParseAddr returns it, is in one.
func (ns Networks) Contain(a netip.Addr) bool {
	for _, p := range ns {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
