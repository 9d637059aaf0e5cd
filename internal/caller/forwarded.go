package caller

import (
	"net/netip"
	"strings"
)

// MaxHops is how many entries of a list are looked at, from its end.
const MaxHops = 32

// Behind returns who asked the proxies that stand in front, of which the last is
// the peer, and what they say is a list in values: of addresses or, if it is
// forwarded, as in RFC 7239. It is read from its end: as long as the address
// there is trusted, the one before it is that of who asked that proxy. If an
// entry is no address, who sent it is the client.
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
				continue // a list may have such
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

// forwardedFor is the for= of an element of Forwarded, or something that is no
// address.
func forwardedFor(element string) string {
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
