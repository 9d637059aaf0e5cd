package caller

import (
	"net/netip"
	"strings"

	"github.com/weir-go/weir/internal/httpheader"
)

// MaxHops bounds the entries of a list that Behind reads, from its end.
const MaxHops = 32

// Behind returns the client of a chain of proxies. The peer is the last proxy. The
// values list the clients of the proxies: addresses or, if forwarded is set,
// elements of RFC 7239. The list is read from its end: if an address is trusted,
// the entry before it is the client of that proxy. If an entry is not an address,
// the client is the proxy that sent it.
func Behind(peer netip.Addr, values []string, forwarded bool, trusted Networks) netip.Addr {
	client, hops := peer, 0
	for i := len(values) - 1; i >= 0; i-- {
		rest, more := values[i], true
		for more {
			if !trusted.Contain(client) || hops == MaxHops {
				return client
			}
			hops++
			var entry string
			rest, entry, more = cutLast(rest)
			if entry = strings.TrimSpace(entry); entry == "" {
				continue // lists may have empty elements
			}
			if forwarded {
				entry = forwardedFor(entry)
			}
			a, ok := ParseAddr(entry)
			if !ok {
				return client
			}
			client = a
		}
	}
	return client
}

// cutLast splits a list before its last element. It searches from the end, so that
// an open quote in an earlier element does not hide later ones.
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

// escaped reports whether s ends with a backslash that is not escaped itself.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// forwardedFor returns the parameter for of an element of Forwarded, or "unknown".
func forwardedFor(element string) string {
	for element != "" {
		var pair string
		pair, element, _ = httpheader.Cut(element, ';')
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
