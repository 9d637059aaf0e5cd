package grpclimit

import (
	"context"
	"crypto/sha256"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir"
)

// A Key returns what tells the client of a call from others, or the like, and
// whether it is there. Whoever may choose a key has as many buckets as he likes:
// metadata is a key only where something in front has verified it.
type Key[K comparable] func(r Request) (key K, ok bool)

// MaxKey is the longest text that is a key as it is, in bytes. Of a longer one,
// its SHA-256 is the key.
const MaxKey = 256

// Address is the Key of the peer's address. Of IPv6 it is the network of 64 bits,
// which is what one client has; an IPv4 address is the same in its IPv6 form. A
// peer without one, such as that of a Unix socket, has no key.
func Address() Key[netip.Addr] {
	return func(r Request) (netip.Addr, bool) {
		a, ok := address(r.Context)
		if a.Is6() {
			if p, err := a.Prefix(64); err == nil {
				a = p.Addr()
			}
		}
		return a, ok
	}
}

// address is the peer's. It has no zone, and IPv4 is IPv4.
func address(ctx context.Context) (netip.Addr, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}, false
	}
	var at netip.AddrPort
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		at = tcp.AddrPort()
	} else {
		at, _ = netip.ParseAddrPort(p.Addr.String())
	}
	return at.Addr().Unmap().WithZone(""), at.IsValid()
}

// Metadata is the Key of a metadata's first value.
func Metadata(name string) Key[string] {
	name = strings.ToLower(name)
	return func(r Request) (string, bool) {
		values := metadata.ValueFromIncomingContext(r.Context, name)
		if len(values) == 0 {
			return "", false
		}
		return bounded(values[0])
	}
}

// Method is the Key of the method, such as "/package.Service/Method".
func Method() Key[string] {
	return func(r Request) (string, bool) { return bounded(r.Method) }
}

// A Pair is two keys as one.
type Pair[A, B comparable] struct {
	A A
	B B
}

// Both is the Key of each pair of two: of a client and a method, say. It is
// there if both are.
func Both[A, B comparable](a Key[A], b Key[B]) Key[Pair[A, B]] {
	return func(r Request) (Pair[A, B], bool) {
		x, first := a(r)
		y, second := b(r)
		return Pair[A, B]{x, y}, first && second
	}
}

// bounded returns a text that is no longer than MaxKey, and not part of a longer
// one that would be kept with it.
func bounded(s string) (string, bool) {
	if len(s) > MaxKey {
		sum := sha256.Sum256([]byte(s))
		return "\x00" + string(sum[:]), true // no text of metadata begins so
	}
	return s, s != ""
}

// heed returns the context of a call with the priority that its metadata says.
func (i *Interceptor) heed(ctx context.Context) context.Context {
	values := metadata.ValueFromIncomingContext(ctx, i.cfg.Criticality)
	if len(values) == 0 {
		return ctx
	}
	p, ok := priority(values[0])
	if !ok {
		return ctx
	}
	if p > weir.Critical && !i.trusts(ctx) {
		p = weir.Critical
	}
	return weir.WithPriority(ctx, p)
}

func (i *Interceptor) trusts(ctx context.Context) bool {
	a, ok := address(ctx)
	for _, p := range i.cfg.Trusted {
		if ok && p.Contains(a) {
			return true
		}
	}
	return false
}

// priority is what metadata calls a criticality.
func priority(s string) (weir.Priority, bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "sheddable":
		return weir.Sheddable, true
	case "sheddable_plus":
		return weir.SheddablePlus, true
	case "critical":
		return weir.Critical, true
	case "critical_plus":
		return weir.CriticalPlus, true
	}
	return 0, false
}

// criticality is what metadata calls the level that p belongs to.
func criticality(p weir.Priority) string {
	switch {
	case p <= weir.Sheddable:
		return "sheddable"
	case p < weir.Critical:
		return "sheddable_plus"
	case p == weir.Critical:
		return "critical"
	default:
		return "critical_plus"
	}
}

// validName reports whether metadata may have the name, or there is none. That
// of gRPC itself, and what is not text, is not for us.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	name = strings.ToLower(name)
	return !strings.HasPrefix(name, "grpc-") && !strings.HasSuffix(name, "-bin")
}
