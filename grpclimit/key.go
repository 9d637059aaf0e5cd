package grpclimit

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/caller"
)

// A Key returns the bucket key of a call, and whether the call has one. A client
// that can choose its key has as many buckets as it likes. So use metadata as a
// key only if something in front has verified it.
type Key[K comparable] func(r Request) (key K, ok bool)

// MaxKey is the length in bytes up to which a text is used as a key. Of a longer
// text, the SHA-256 is the key.
const MaxKey = caller.MaxKey

// Address is the Key of the peer's address. For IPv6 it is the network of 64 bits,
// the usual size for one client. An IPv4 address equals its IPv6 form. A peer
// without an address, such as a Unix socket, has no key.
func Address() Key[netip.Addr] { return admission.Address(peerOf) }

// AddressBehind is the Key of the client's address behind proxies, which they
// report in metadata: x-forwarded-for, or forwarded (RFC 7239). Only entries of
// trusted proxies count, as in httplimit.AddressBehind. It panics if a network is
// invalid.
func AddressBehind(name string, trusted ...netip.Prefix) Key[netip.Addr] {
	name = strings.ToLower(name)
	list := func(r Request) []string { return metadata.ValueFromIncomingContext(r.Context, name) }
	return admission.AddressBehind(peerOf, list, name == "forwarded", trusted)
}

// peerOf returns the peer's address, without a zone. IPv4 is in its short form.
func peerOf(r Request) (netip.Addr, bool) {
	p, ok := peer.FromContext(r.Context)
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

// Metadata is the Key of the first value of a metadata name.
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

// Text is the Key of an address as text, for First and Both.
func Text(key Key[netip.Addr]) Key[string] { return admission.Text(key) }

// First is the Key of the first of several keys that a call has. Equal texts of
// two of them are different keys.
func First(keys ...Key[string]) Key[string] { return admission.First(keys) }

// Both is the Key of two keys together: a client and a method, say. A call has it
// if it has both.
func Both[K comparable](a, b Key[K]) Key[[2]K] { return admission.Both(a, b) }

// heed returns the context of a call with the priority of its metadata.
func (i *Interceptor) heed(r Request) context.Context {
	values := metadata.ValueFromIncomingContext(r.Context, i.cfg.Criticality)
	if len(values) > 0 {
		if p, ok := caller.Priority(values[0], i.door.Trusts(peerOf(r))); ok {
			class := weir.ClassOf(r.Context)
			class.Priority = p
			return weir.WithClass(r.Context, class)
		}
	}
	return r.Context
}

// validName reports whether s is empty or a name of metadata that applications may
// use for text.
func validName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	lower := strings.ToLower(s)
	return strings.Trim(s, letters) == "" && !strings.HasPrefix(lower, "grpc-") && !strings.HasSuffix(lower, "-bin")
}
