package grpclimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/internal/priority"
)

// MaxKey is the length in bytes up to which a text is used as a key. Of a longer
// text, the SHA-256 is the key.
const MaxKey = 256

var _ [0]struct{} = [MaxKey - caller.MaxKey]struct{}{} // they are equal

// Address returns a key function for PerKey: the peer's address, as httplimit.Address makes a key
// of it: for IPv6 the network of 64 bits, the usual size for one client. A peer
// without an address, such as one at a Unix socket, has no key.
func Address() func(Request) (netip.Addr, bool) { return admission.Address(peerOf) }

// AddressBehind returns a key function for PerKey: the client's address behind proxies, which they
// report in metadata: x-forwarded-for, or forwarded (RFC 7239). Only entries of
// trusted proxies count, as in httplimit.AddressBehind: one at a Unix socket is trusted if a network
// contains 127.0.0.1 or ::1. It panics if a network is invalid.
func AddressBehind(name string, trusted ...netip.Prefix) func(Request) (netip.Addr, bool) {
	name = strings.ToLower(name)
	list := func(r Request) []string { return metadata.ValueFromIncomingContext(r.Context, name) }
	return admission.AddressBehind(peerOf, list, name == "forwarded", trusted)
}

// peerOf returns the peer of a call.
func peerOf(r Request) caller.Peer {
	p, ok := peer.FromContext(r.Context)
	if !ok || p.Addr == nil {
		return caller.Peer{}
	}
	if _, ok := p.Addr.(*net.TCPAddr); ok {
		return caller.PeerOf(p.Addr)
	}
	if local, ok := r.Context.Value(http.LocalAddrContextKey).(net.Addr); ok { // of a server of net/http
		return caller.PeerAt(p.Addr.String(), local)
	}
	return caller.PeerOf(p.Addr)
}

// Metadata returns a key function for PerKey: the first value of a metadata name.
func Metadata(name string) func(Request) (string, bool) {
	name = strings.ToLower(name)
	return func(r Request) (string, bool) {
		values := metadata.ValueFromIncomingContext(r.Context, name)
		if len(values) == 0 {
			return "", false
		}
		return caller.Key(values[0])
	}
}

// Method returns a key function for PerKey: the method, such as "/package.Service/Method".
func Method() func(Request) (string, bool) {
	return func(r Request) (string, bool) { return caller.Key(r.Method) }
}

// heed returns the context of a call with the priority of its metadata.
func (i *Interceptor) heed(r Request) context.Context {
	values := metadata.ValueFromIncomingContext(r.Context, i.cfg.Criticality)
	if len(values) > 0 {
		if p, ok := priority.Parse(values[0], i.door.Trusts(peerOf(r))); ok {
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
