package proxyrule

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/service/internal/routeset"
)

// Keys lists sources of a key. The first one that a request has gives the key.
type Keys []Key

// A Key is a source of a key, of one or more parts: "address", "header X-Api-Key",
// "address + route". A request has the key if it has all parts.
type Key struct{ parts []part }

// A part is one source of a text.
type part struct {
	kind string // address, route, method, host, header, cookie, query
	name string // of a header, cookie or query parameter
}

func (p part) String() string { return strings.TrimSuffix(p.kind+" "+p.name, " ") }

// String returns the source as in a file.
func (k Key) String() string {
	var all []string
	for _, p := range k.parts {
		all = append(all, p.String())
	}
	return strings.Join(all, " + ")
}

// String returns the sources, separated by commas.
func (ks Keys) String() string {
	var all []string
	for _, k := range ks {
		all = append(all, k.String())
	}
	return strings.Join(all, ", ")
}

// MarshalText returns String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a source.
func (k *Key) UnmarshalText(text []byte) error {
	var parts []part
	for piece := range strings.SplitSeq(string(text), " + ") {
		p, err := parsePart(piece)
		if err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		parts = append(parts, p)
	}
	k.parts = parts
	return nil
}

func parsePart(text string) (part, error) {
	kind, name, _ := strings.Cut(strings.TrimSpace(text), " ")
	p := part{strings.ToLower(kind), strings.TrimSpace(name)}
	named := false
	switch p.kind {
	case "address", "route", "method", "host":
	case "header", "cookie":
		named = true
		if !httpguts.ValidHeaderFieldName(p.name) {
			return p, fmt.Errorf("want the name of a %s after it, such as %s", p.kind, sample[p.kind])
		}
	case "query":
		named = true
		if p.name == "" {
			return p, fmt.Errorf("want the name of a parameter after it, such as %s", sample[p.kind])
		}
	default:
		return p, fmt.Errorf("want address, route, method, host, header NAME, cookie NAME or query NAME, or several with + between them")
	}
	if !named && p.name != "" {
		return p, fmt.Errorf("want nothing after %s; several parts need + between them", p.kind)
	}
	if p.kind == "header" {
		p.name = http.CanonicalHeaderKey(p.name)
	}
	return p, nil
}

var sample = map[string]string{"header": "header X-Api-Key", "cookie": "cookie session", "query": "query api_key"}

// KeyHeaders returns the names of the headers by which rules and tenants tell clients apart.
// A response for one of them is not for others, unless a Cache says so by Vary.
func (r *Rules) KeyHeaders() (names []string) {
	var all Keys
	for i := range r.Rules {
		all = append(all, r.Rules[i].By...)
	}
	if r.Tenants != nil {
		all = append(all, r.Tenants.By...)
	}
	for _, k := range all {
		for _, p := range k.parts {
			if p.kind == "header" && p.name != "Host" && !slices.Contains(names, p.name) {
				names = append(names, p.name)
			}
		}
	}
	return names
}

// onlyAddress reports whether the address alone is the key.
func (ks Keys) onlyAddress() bool {
	return len(ks) == 1 && len(ks[0].parts) == 1 && ks[0].parts[0].kind == "address"
}

// function returns the key function of the sources, for the routes of a rule.
func (ks Keys) function(routes *routeset.Set) func(*http.Request) (string, bool) {
	var all []func(*http.Request) (string, bool)
	for _, k := range ks {
		all = append(all, k.function(routes))
	}
	if len(all) == 1 {
		return all[0]
	}
	return func(r *http.Request) (string, bool) { // without sources: one key
		for i, key := range all {
			if text, ok := key(r); ok {
				return ks.keyOf(i, text), true
			}
		}
		return "", false
	}
}

// keyOf returns the key for a text from a source. Sources do not share keys.
func (ks Keys) keyOf(source int, text string) string {
	if len(ks) == 1 {
		return text
	}
	return string(rune('0'+source)) + text
}

func (k Key) function(routes *routeset.Set) func(*http.Request) (string, bool) {
	var all []func(*http.Request) (string, bool)
	for _, p := range k.parts {
		all = append(all, p.function(routes))
	}
	if len(all) == 1 {
		return all[0]
	}
	return func(r *http.Request) (string, bool) {
		var b strings.Builder
		for _, of := range all {
			text, ok := of(r)
			if !ok {
				return "", false
			}
			b.WriteByte(byte(len(text) >> 8))
			b.WriteByte(byte(len(text)))
			b.WriteString(text)
		}
		return caller.Key(b.String())
	}
}

// function returns a function for the text of a part. Long texts are hashed.
func (p part) function(routes *routeset.Set) func(*http.Request) (string, bool) {
	switch p.kind {
	case "header":
		return httplimit.Header(p.name)
	case "address":
		return func(r *http.Request) (string, bool) {
			a, ok := Address(r)
			return a.String(), ok
		}
	case "route":
		return func(r *http.Request) (string, bool) { return routes.Match(r) }
	case "method":
		return func(r *http.Request) (string, bool) { return r.Method, true }
	case "host":
		return func(r *http.Request) (string, bool) { return caller.Key(routeset.CanonicalHost(r.Host)) }
	case "cookie":
		return func(r *http.Request) (string, bool) {
			for _, c := range r.CookiesNamed(p.name) {
				return caller.Key(c.Value)
			}
			return "", false
		}
	}
	return func(r *http.Request) (string, bool) { return queryValue(r.URL, p.name) }
}

// Address is a key function for the client at a RemoteAddr, which is not the peer's if that is a
// trusted proxy.
func Address(r *http.Request) (netip.Addr, bool) {
	a, ok := caller.ParseAddr(r.RemoteAddr)
	return caller.Client(a), ok
}

// queryValue returns the first value of a parameter that is not empty.
func queryValue(u *url.URL, name string) (string, bool) {
	if u.RawQuery == "" {
		return "", false
	}
	return caller.Key(u.Query().Get(name))
}
