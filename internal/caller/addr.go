// Package caller identifies callers from the fields of a protocol: their address,
// also behind proxies; a key of bounded size; the priority of a request.
package caller

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Client returns the address by which a client is counted: the one that the addresses of its Network have in common.
func Client(a netip.Addr) netip.Addr { return Network(a).Addr() }

// Network returns the addresses that are of one client, as far as one of them tells: of IPv4 that one, of IPv6
// the network of 64 bits. Of an IPv6 address that embeds the IPv4 address of its client, it is that
// IPv4 address. The networks are in docs/clients.md.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	if !a.Is6() {
		return netip.PrefixFrom(a, a.BitLen())
	}
	b, bits := a.As16(), 64
	switch {
	case translated.Contains(a), stateless.Contains(a):
		return single([4]byte(b[12:]))
	case sixToFour.Contains(a):
		return single([4]byte(b[2:6]))
	case teredo.Contains(a):
		return single([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	case local.Contains(a):
		bits = 128 // where the IPv4 address is depends on the translator
	}
	p, _ := a.Prefix(bits)
	return p
}

// The IPv6 networks with addresses that embed an IPv4 address, so that clients differ within a network of 64 bits, or a
// client has many of these.
var (
	translated = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	local      = netip.MustParsePrefix("64:ff9b:1::/48")  // translated, too: RFC 8215
	stateless  = netip.MustParsePrefix("::ffff:0:0:0/96") // translated, too: RFC 2765
	sixToFour  = netip.MustParsePrefix("2002::/16")       // 6to4: RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
)

// single returns the network of one IPv4 address.
func single(b [4]byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4(b), 32) }

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

// A Peer is the other end of a connection. The zero Peer is not known.
type Peer struct {
	// Addr is the address, without a zone, and with IPv4 in IPv6 as IPv4. It is invalid if the peer
	// has none.
	Addr netip.Addr
	// Unix is set for a peer at a Unix socket. It has no Addr.
	Unix bool
}

// UnixPeer is the text of a peer at a Unix socket, as nginx writes it.
const UnixPeer = "unix:"

// PeerAt returns the peer of a connection with a remote and a local address. The local one may be
// nil. A client can bind its end of a Unix socket to a path that looks like an address, so the local address decides.
func PeerAt(remote string, local net.Addr) Peer {
	if IsUnix(local) {
		return Peer{Unix: true}
	}
	a, _ := ParseAddr(remote)
	return Peer{Addr: a}
}

// PeerOf returns the peer with the remote address of a connection.
func PeerOf(remote net.Addr) Peer {
	switch a := remote.(type) {
	case nil:
		return Peer{}
	case *net.TCPAddr:
		return Peer{Addr: a.AddrPort().Addr().Unmap().WithZone("")}
	default:
		return PeerAt(a.String(), a)
	}
}

// ParsePeer parses an address, as ParseAddr does, or UnixPeer.
func ParsePeer(s string) (Peer, bool) {
	if s == UnixPeer {
		return Peer{Unix: true}, true
	}
	a, ok := ParseAddr(s)
	return Peer{Addr: a}, ok
}

// String returns the text that ParsePeer parses.
func (p Peer) String() string {
	if p.Unix {
		return UnixPeer
	}
	return p.Addr.String()
}

// IsUnix reports whether an address belongs to a Unix socket.
func IsUnix(a net.Addr) bool {
	unix, ok := a.(*net.UnixAddr)
	return ok && unix != nil
}

// Trusted is a set of trusted peers. The zero value is empty.
type Trusted struct {
	networks []netip.Prefix
	unix     bool
}

// Trust returns the set of the peers in some networks. The peers at Unix sockets are in it if unix
// is set, or if a network has 127.0.0.1 or ::1: they are on this machine, as peers at these
// addresses are. An IPv4 network in IPv6 form has the IPv4 addresses.
func Trust(networks []netip.Prefix, unix bool) Trusted {
	t := Trusted{networks: slices.Clone(networks), unix: unix}
	for i, p := range t.networks {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			t.networks[i] = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
	}
	for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		t.unix = t.unix || t.Contains(Peer{Addr: a})
	}
	return t
}

// Invalid returns the index of the first invalid network, or -1.
func Invalid(networks []netip.Prefix) int {
	return slices.IndexFunc(networks, func(p netip.Prefix) bool { return !p.IsValid() })
}

// Empty reports whether no peer is trusted.
func (t Trusted) Empty() bool { return len(t.networks) == 0 && !t.unix }

// Contains reports whether a peer is trusted: for its address itself, not for one that is embedded in it.
func (t Trusted) Contains(p Peer) bool {
	if p.Unix {
		return t.unix
	}
	return slices.ContainsFunc(t.networks, func(n netip.Prefix) bool { return n.Contains(p.Addr) })
}
