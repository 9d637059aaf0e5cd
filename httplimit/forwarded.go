package httplimit

import (
	"net/http"
	"net/netip"
	"strings"
)

// maxHops is how many entries of a header are looked at, from its end.
const maxHops = 32

// AddressBehind is the Key of the client's address where proxies stand in
// front, which say in a header whom they got a request from: X-Forwarded-For,
// Forwarded (RFC 7239), or one with a single address such as X-Real-IP. Like
// Address, of IPv6 it is a network.
//
// Only what a trusted proxy has added counts. A header is read from its end: as
// long as the address there is trusted, the one before it is that of who asked
// that proxy. So nobody can pretend to be another by sending the header himself,
// provided that each proxy adds to the header that is named here, or replaces
// it. If an entry is no address, the address of who sent it is the client's.
func AddressBehind(header string, trusted ...netip.Prefix) Key[netip.Addr] {
	header = http.CanonicalHeaderKey(header)
	element := strings.TrimSpace
	if header == "Forwarded" {
		element = forwardedFor
	}
	return func(r *http.Request) (netip.Addr, bool) {
		client, ok := parseAddr(r.RemoteAddr)
		values := r.Header[header]
		hops := 0
		for i := len(values) - 1; i >= 0; i-- {
			rest, more := values[i], true
			for more {
				if !ok || !contains(trusted, client) || hops == maxHops {
					return network(client), ok
				}
				hops++
				var entry string
				rest, entry, more = cutLast(rest)
				if entry = element(entry); entry == "" {
					continue
				}
				a, valid := parseAddr(entry)
				if !valid {
					return network(client), ok
				}
				client = a
			}
		}
		return network(client), ok
	}
}

func contains(networks []netip.Prefix, a netip.Addr) bool {
	for _, p := range networks {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// cutLast splits a list before its last element. It looks for that from the end,
// so that a quote which somebody further away has left open hides nothing that
// was added later.
func cutLast(list string) (rest, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && !(quoted && escaped(list[:i])):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return "", list, false
}

// escaped reports whether what follows s is behind a backslash that is not
// itself behind one.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// cutPair splits a forwarded-element of RFC 7239 behind its first pair.
func cutPair(element string) (pair, rest string) {
	quoted := false
	for i := 0; i < len(element); i++ {
		switch {
		case quoted && element[i] == '\\':
			i++
		case element[i] == '"':
			quoted = !quoted
		case element[i] == ';' && !quoted:
			return element[:i], element[i+1:]
		}
	}
	return element, ""
}

// forwardedFor is the for= of an element of Forwarded, or something that is no
// address.
func forwardedFor(element string) string {
	if strings.TrimSpace(element) == "" {
		return "" // a list may have such
	}
	for element != "" {
		var pair string
		pair, element = cutPair(element)
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if value != "" {
			return value
		}
	}
	return "unknown"
}
