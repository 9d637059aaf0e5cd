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
func Behind(peer Peer, values []string, forwarded bool, trusted Trusted) Peer {
	client, hops := peer, 0
	for i := len(values) - 1; i >= 0; i-- {
		rest, more := values[i], true
		for more {
			if !trusted.Contains(client) || hops == MaxHops {
				return client
			}
			hops++
			var entry string
			rest, entry, more = cutLast(rest)
			if entry = strings.TrimSpace(entry); entry == "" {
				continue // lists may have empty elements
			}
			parse := ParseAddr
			if forwarded {
				parse = forwardedFor
			}
			a, ok := parse(entry)
			if !ok {
				return client
			}
			client = Peer{Addr: a}
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

// forwardedFor returns the address in the parameter for of an element of Forwarded. It is not ok if there is
// none: such as unknown, or an obfuscated identifier, which may be another one for each request (RFC 7239, section 6.3).
func forwardedFor(element string) (netip.Addr, bool) {
	for element != "" {
		var pair string
		pair, element, _ = httpheader.Cut(element, ';')
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = unescape(value[1 : len(value)-1])
		}
		return parseNode(value)
	}
	return netip.Addr{}, false
}

// unescape replaces the quoted pairs in the content of a quoted string.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// parseNode parses an address with or without a port, which may be obfuscated (RFC 7239, section 6).
func parseNode(node string) (netip.Addr, bool) {
	name, port := node, ""
	switch i := strings.LastIndexByte(node, ':'); {
	case strings.HasPrefix(node, "["):
		i = strings.IndexByte(node, ']') + 1
		name, port = node[:i], node[i:]
	case i >= 0 && strings.Count(node, ":") == 1:
		name, port = node[:i], node[i:]
	}
	if port != "" && !isNodePort(port) {
		return netip.Addr{}, false
	}
	return ParseAddr(name)
}

// isNodePort reports whether a text is a colon with a port of RFC 7239.
func isNodePort(s string) bool {
	if obfuscated, ok := strings.CutPrefix(s, ":_"); ok {
		const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
		return obfuscated != "" && strings.Trim(obfuscated, letters) == ""
	}
	digits, ok := strings.CutPrefix(s, ":")
	return ok && len(digits) >= 1 && len(digits) <= 5 && strings.Trim(digits, "0123456789") == ""
}
