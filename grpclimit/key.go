package grpclimit

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
)

// A Key returns what tells the client of a call from others, or the like, and
// whether it is there. Whoever may choose a key has as many buckets as he likes:
// metadata is a key only where something in front has verified it.
type Key[K comparable] func(r Request) (key K, ok bool)

// MaxKey is the longest text that is a key as it is, in bytes. Of a longer one,
// its SHA-256 is the key.
const MaxKey = caller.MaxKey

// Address is the Key of the peer's address. Of IPv6 it is the network of 64 bits,
// which is what one client has; an IPv4 address is the same in its IPv6 form. A
// peer without one, such as that of a Unix socket, has no key.
func Address() Key[netip.Addr] {
	return func(r Request) (netip.Addr, bool) {
		a, ok := address(r.Context)
		return caller.Network(a), ok
	}
}

// AddressBehind is the Key of the client's address where proxies stand in front,
// which say in metadata whom they got a call from: x-forwarded-for, or forwarded
// (RFC 7239). Only what a trusted proxy has added counts, as with
// httplimit.AddressBehind. It panics if a network is none.
func AddressBehind(name string, trusted ...netip.Prefix) Key[netip.Addr] {
	name = strings.ToLower(name)
	networks := caller.Trust(trusted)
	if i := networks.Invalid(); i >= 0 {
		panic("grpclimit: AddressBehind of a network that is none: number " + strconv.Itoa(i))
	}
	return func(r Request) (netip.Addr, bool) {
		peer, ok := address(r.Context)
		if !ok {
			return peer, false
		}
		values := metadata.ValueFromIncomingContext(r.Context, name)
		return caller.Network(caller.Behind(peer, values, name == "forwarded", networks)), true
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
		return caller.Key(values[0])
	}
}

// Method is the Key of the method, such as "/package.Service/Method".
func Method() Key[string] {
	return func(r Request) (string, bool) { return caller.Key(r.Method) }
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

// heed returns the context of a call with the priority that its metadata says.
func (i *Interceptor) heed(ctx context.Context) context.Context {
	values := metadata.ValueFromIncomingContext(ctx, i.cfg.Criticality)
	if len(values) == 0 {
		return ctx
	}
	if p, ok := caller.Priority(values[0], i.trusts(ctx)); ok {
		class := weir.ClassOf(ctx)
		class.Priority = p
		return weir.WithClass(ctx, class)
	}
	return ctx
}

func (i *Interceptor) trusts(ctx context.Context) bool {
	a, ok := address(ctx)
	return ok && i.trusted.Contain(a)
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
