package proxyrule

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/internal/priority"
)

// A Level is a priority.
type Level weir.Priority

// LevelNames lists the levels, the least important first.
var LevelNames = []string{"sheddable", "sheddable_plus", "critical", "critical_plus"}

// String returns the name of the level.
func (l Level) String() string { return priority.Name(weir.Priority(l)) }

// MarshalText returns String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name of a level, in any case.
func (l *Level) UnmarshalText(text []byte) error {
	p, ok := priority.Parse(string(text), true)
	if !ok {
		return fmt.Errorf("%q: want %s", text, strings.Join(LevelNames, ", "))
	}
	*l = Level(p)
	return nil
}

// Networks is a list of networks. In a file, a single one needs no list.
type Networks []Network

// A Network is an address, a network, or the peers at Unix sockets.
type Network struct {
	netip.Prefix      // invalid if Unix is set
	Unix         bool // peers at Unix sockets
}

// UnmarshalText reads 10.0.0.0/8, 2001:db8::/32, a single address, or unix.
func (n *Network) UnmarshalText(text []byte) error {
	if string(text) == "unix" {
		*n = Network{Unix: true}
		return nil
	}
	if a, ok := caller.ParseAddr(string(text)); ok && !strings.ContainsAny(string(text), "[]") {
		n.Prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	p, err := netip.ParsePrefix(string(text))
	if err != nil {
		return fmt.Errorf("%q: want an address or a network, such as 10.0.0.0/8 or 2001:db8::/32, or unix", text)
	}
	n.Prefix = p.Masked()
	return nil
}

// Trusted returns the set of the peers in the networks.
func (ns Networks) Trusted() caller.Trusted {
	var (
		networks []netip.Prefix
		unix     bool
	)
	for _, n := range ns {
		if n.Unix {
			unix = true
		} else {
			networks = append(networks, n.Prefix)
		}
	}
	return caller.Trust(networks, unix)
}
