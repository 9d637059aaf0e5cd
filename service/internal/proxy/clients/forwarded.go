package clients

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/service/internal/connlimit"
)

// Trust says which proxies tell the truth about their clients. The zero Trust trusts none.
type Trust struct {
	// Proxies has the trusted proxies.
	Proxies caller.Trusted
	// Header is the header in which they report their clients: X-Forwarded-For, Forwarded
	// (RFC 7239), or one with a single address, such as X-Real-IP. If empty,
	// X-Forwarded-For. The proxies must append to it, or replace it.
	Header string
}

// Canonical returns a Trust with a Header in its canonical form.
func (t Trust) Canonical() Trust {
	t.Header = cmp.Or(http.CanonicalHeaderKey(t.Header), "X-Forwarded-For")
	return t
}

// A Client says where a request comes from.
type Client struct {
	conn    *conn       // nil over HTTP/2, or without withConn
	lingers bool        // not of HTTP/1.0, where only the end of a connection may tell where the answer ends
	proxy   caller.Peer // the trusted proxy through which it came; the zero Peer if the peer is none
	Addr    netip.Addr  // as that proxy reports it; invalid if it reports none
}

// trusted reports whether the request came through a trusted proxy.
func (c *Client) trusted() bool { return c.proxy != caller.Peer{} }

// Identify returns a request with the address of its client as its RemoteAddr, and sets from, which is the zero Client. The
// RemoteAddr of a peer at a Unix socket is caller.UnixPeer.
func (t *Trust) Identify(r *http.Request, from *Client) *http.Request {
	ctx := r.Context()
	if r.ProtoMajor == 1 {
		from.conn, _ = ctx.Value(connKey{}).(*conn)
		from.lingers = r.ProtoMinor > 0
	}
	local, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	if t.Proxies.Empty() && !caller.IsUnix(local) {
		return r
	}
	peer := caller.PeerAt(r.RemoteAddr, local)
	if !t.Proxies.Contains(peer) {
		if peer.Unix {
			r = r.WithContext(ctx)
			r.RemoteAddr = caller.UnixPeer
		}
		return r
	}
	from.proxy = peer
	if client := caller.Behind(peer, r.Header[t.Header], t.Header == "Forwarded", t.Proxies); client != peer {
		from.Addr = client.Addr
	}
	r = r.WithContext(ctx)
	if from.Addr.IsValid() {
		r.RemoteAddr = netip.AddrPortFrom(from.Addr, 0).String()
	} else if peer.Unix {
		r.RemoteAddr = caller.UnixPeer
	}
	return r
}

// forwardedHeaders are the headers by which proxies tell about their clients.
var forwardedHeaders = [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-Ip", "Forwarded"}

// ConcernsClient reports whether a header tells about clients.
func (t *Trust) ConcernsClient(name string) bool {
	return name == t.Header || slices.Contains(forwardedHeaders[:], name)
}

// SetForwarded tells the origin about the client: by the headers of a trusted proxy, to
// which it appends the address of that proxy, or else by its own.
func (t *Trust) SetForwarded(out, in *http.Request, from *Client) {
	for _, name := range forwardedHeaders {
		delete(out.Header, name)
	}
	client := addressOf(in.RemoteAddr)
	if _, sent := in.Header["X-Real-Ip"]; client != "" && (sent || t.Header == "X-Real-Ip") {
		out.Header["X-Real-Ip"] = []string{client}
	}
	if !from.trusted() {
		setOwn(out, in, client)
		if _, sent := in.Header["X-Forwarded-Port"]; sent {
			out.Header["X-Forwarded-Port"] = []string{portOf(in.Host, scheme(in))}
		}
		if client != "" && !slices.Contains(forwardedHeaders[:], t.Header) {
			out.Header[t.Header] = out.Header["X-Forwarded-For"]
		}
		return
	}
	proxy := ""
	if from.proxy.Addr.IsValid() {
		proxy = from.proxy.Addr.String()
	}
	chain := proxy
	if prior := in.Header["X-Forwarded-For"]; len(prior) > 0 {
		if chain = strings.Join(prior, ", "); proxy != "" {
			chain += ", " + proxy
		}
	}
	setOwn(out, in, chain)
	for _, name := range [...]string{"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port"} {
		if values := in.Header[name]; len(values) > 0 {
			out.Header[name] = values
		}
	}
	if forwarded := in.Header["Forwarded"]; len(forwarded) > 0 {
		out.Header["Forwarded"] = []string{strings.Join(forwarded, ", ") + ", " + element(from.proxy, scheme(in))}
	}
}

// addressOf returns the address in a RemoteAddr; empty if it has none.
func addressOf(remote string) string {
	a, ok := caller.ParseAddr(remote)
	if !ok {
		return ""
	}
	if host, _, _ := strings.Cut(remote, ":"); a.Is4() && len(host) >= len("0.0.0.0") { // it is a's text already
		return host
	}
	return a.String()
}

// setOwn sets X-Forwarded-For to a list of addresses, unless that is empty, and the headers of the host and the
// protocol.
func setOwn(out, in *http.Request, addresses string) {
	values := [...]string{addresses, in.Host, scheme(in)} // one allocation
	if addresses != "" {
		out.Header["X-Forwarded-For"] = values[0:1:1]
	}
	out.Header["X-Forwarded-Host"] = values[1:2:2]
	out.Header["X-Forwarded-Proto"] = values[2:3:3]
}

// portOf returns the port in a Host, or that of the protocol.
func portOf(host, scheme string) string {
	if i := strings.LastIndexByte(host, ':') + 1; i > strings.LastIndexByte(host, ']') && i < len(host) {
		if n, err := strconv.ParseUint(host[i:], 10, 16); err == nil && n > 0 {
			return host[i:]
		}
	}
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// Resource returns what a request names, with the host and the protocol that a trusted proxy reports, because the
// answer of the origin can depend on them.
func (c *Client) Resource(r *http.Request) string {
	var hosts, protocols, forwarded []string
	if c.trusted() {
		hosts, protocols = r.Header["X-Forwarded-Host"], r.Header["X-Forwarded-Proto"]
		for _, list := range r.Header["Forwarded"] {
			forwarded = append(forwarded, reported(list))
		}
	}
	return fmt.Sprintf("%q %q %q %q %q %q %q", r.Host, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, hosts, protocols, forwarded)
}

// reported returns the hosts and protocols in a Forwarded header, without the addresses of clients.
// A header with a quoted text is returned whole.
func reported(forwarded string) string {
	if strings.Contains(forwarded, `"`) {
		return forwarded
	}
	var kept []string
	for pair := range strings.FieldsFuncSeq(forwarded, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		if name = strings.ToLower(strings.TrimSpace(name)); name == "host" || name == "proto" {
			kept = append(kept, name, value)
		}
	}
	return fmt.Sprintf("%q", kept)
}

// scheme returns the protocol of a request's connection.
func scheme(r *http.Request) string {
	if r.TLS != nil || connlimit.Secure(r.Context()) {
		return "https"
	}
	return "http"
}

// element returns an element of Forwarded for a request through a proxy.
func element(p caller.Peer, scheme string) string {
	name := "unknown" // a proxy without an address
	switch {
	case p.Addr.Is4():
		name = p.Addr.String()
	case p.Addr.Is6():
		name = `"[` + p.Addr.String() + `]"`
	}
	return "for=" + name + ";proto=" + scheme
}
