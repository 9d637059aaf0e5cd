// Package caller identifies callers from the fields of a protocol: their address,
// also behind proxies; a key of bounded size; the priority of a request.
package caller

import (
	"net/netip"
	"slices"
	"strings"
)

// Network returns the part of an address that belongs to one client: for IPv6 the
// network of 64 bits.
func Network(a netip.Addr) netip.Addr {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// ParseAddr parses an address with or without a port, and an IPv6 one with or
// without brackets. It removes the zone, and turns IPv4 in IPv6 into IPv4. It does not allocate if s is one.
func ParseAddr(s string) (netip.Addr, bool) {
	brackets := strings.HasPrefix(s, "[")
	switch {
	case brackets && strings.HasSuffix(s, "]"):
		s = s[1 : len(s)-1]
	case brackets || strings.Count(s, ":") == 1:
		ap, err := netip.ParseAddrPort(s)
		return ap.Addr().Unmap().WithZone(""), err == nil
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap().WithZone(""), err == nil
}

// Networks is a set of trusted networks.
type Networks []netip.Prefix

// Trust returns a set of networks. It turns IPv4 networks in IPv6 form into IPv4.
func Trust(networks []netip.Prefix) Networks {
	ns := slices.Clone(networks)
	for i, p := range ns {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			ns[i] = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
	}
	return ns
}

// Invalid returns the index of the first invalid network, or -1.
func (ns Networks) Invalid() int {
	return slices.IndexFunc(ns, func(p netip.Prefix) bool { return !p.IsValid() })
}

// Contain reports whether the set has an address, as ParseAddr returns it.
func (ns Networks) Contain(a netip.Addr) bool {
	return slices.ContainsFunc(ns, func(p netip.Prefix) bool { return p.Contains(a) })
}
