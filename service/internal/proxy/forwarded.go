package proxy

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/service/internal/connlimit"
)

// Trust says which proxies tell the truth about their clients. The zero Trust trusts none.
type Trust struct {
	// Networks contain the addresses of the trusted proxies.
	Networks []netip.Prefix
	// Header is the header in which they report their clients: X-Forwarded-For, Forwarded
	// (RFC 7239), or one with a single address, such as X-Real-IP. If empty,
	// X-Forwarded-For. The proxies must append to it, or replace it.
	Header string
}

// trust is a Trust that is ready for use.
type trust struct {
	networks caller.Networks
	header   string
}

func newTrust(t Trust) trust {
	header := http.CanonicalHeaderKey(t.Header)
	if header == "" {
		header = "X-Forwarded-For"
	}
	return trust{caller.Trust(t.Networks), header}
}

// A source says where a request comes from, if it came through a trusted proxy.
type source struct {
	proxy  netip.Addr // invalid if the peer is no trusted proxy
	client netip.Addr // as the proxy reports it; invalid if it reports none
}

type sourceKey struct{}

// identify returns a request with the address of its client as its RemoteAddr, and with its
// source, if it came through a trusted proxy.
func (t *trust) identify(r *http.Request) *http.Request {
	if len(t.networks) == 0 {
		return r
	}
	peer, ok := caller.ParseAddr(r.RemoteAddr)
	if !ok || !t.networks.Contain(peer) {
		return r
	}
	from := source{proxy: peer}
	if client := caller.Behind(peer, r.Header[t.header], t.header == "Forwarded", t.networks); client != peer {
		from.client = client
	}
	r = r.WithContext(context.WithValue(r.Context(), sourceKey{}, from))
	if from.client.IsValid() {
		r.RemoteAddr = netip.AddrPortFrom(from.client, 0).String()
	}
	return r
}

// source returns where a request comes from, after identify.
func (t *trust) source(r *http.Request) (from source) {
	if len(t.networks) > 0 {
		from, _ = r.Context().Value(sourceKey{}).(source)
	}
	return from
}

// forwardedHeaders are the headers by which proxies tell about their clients.
var forwardedHeaders = [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"}

// setForwarded tells the origin about the client: by the headers of a trusted proxy, to
// which it appends the address of that proxy, or else by its own. The caller has removed the
// headers of the client.
func (t *trust) setForwarded(out, in *http.Request, from source) {
	if !from.proxy.IsValid() {
		setOwn(out, in, in.RemoteAddr)
		if !slices.Contains(forwardedHeaders[:], t.header) {
			out.Header[t.header] = out.Header["X-Forwarded-For"]
		}
		return
	}
	for _, name := range forwardedHeaders {
		if values := in.Header[name]; len(values) > 0 {
			out.Header[name] = values
		}
	}
	host, proto := out.Header["X-Forwarded-Host"], out.Header["X-Forwarded-Proto"]
	forwarded := out.Header["Forwarded"]
	setOwn(out, in, from.proxy.String())
	if len(host) > 0 {
		out.Header["X-Forwarded-Host"] = host
	}
	if len(proto) > 0 {
		out.Header["X-Forwarded-Proto"] = proto
	}
	if len(forwarded) > 0 {
		out.Header["Forwarded"] = []string{strings.Join(forwarded, ", ") + ", " + element(from.proxy, scheme(in))}
	}
}

// setOwn appends an address to X-Forwarded-For, and sets the headers of the host and the
// protocol.
func setOwn(out, in *http.Request, address string) {
	if a, ok := caller.ParseAddr(address); ok {
		if host, _, _ := strings.Cut(address, ":"); a.Is4() && len(host) >= len("0.0.0.0") { // it is a's text already
			address = host
		} else {
			address = a.String()
		}
	}
	if prior := out.Header["X-Forwarded-For"]; len(prior) > 0 {
		address = strings.Join(prior, ", ") + ", " + address
	}
	values := [...]string{address, in.Host, scheme(in)} // one allocation
	out.Header["X-Forwarded-For"] = values[0:1:1]
	out.Header["X-Forwarded-Host"] = values[1:2:2]
	out.Header["X-Forwarded-Proto"] = values[2:3:3]
}

// resource is an httpcache.Config.Key: what a request names, with the host and the protocol that
// a trusted proxy reports, because the answer of the origin can depend on them.
func (t *trust) resource(r *http.Request) (key string, ok bool) {
	var hosts, protocols, forwarded []string
	if t.source(r).proxy.IsValid() {
		hosts, protocols = r.Header["X-Forwarded-Host"], r.Header["X-Forwarded-Proto"]
		for _, list := range r.Header["Forwarded"] {
			forwarded = append(forwarded, reported(list))
		}
	}
	return fmt.Sprintf("%q %q %q %q %q %q %q", r.Host, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, hosts, protocols, forwarded), true
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
func element(a netip.Addr, scheme string) string {
	if a.Is6() {
		return `for="[` + a.String() + `]";proto=` + scheme
	}
	return "for=" + a.String() + ";proto=" + scheme
}
