// Package httpheader validates names and values of headers, so that a bad
// configuration fails when it is read, and cuts lists of values.
package httpheader

import "strings"

// ValidName reports whether name is a token of RFC 9110, section 5.6.2, as
// names of headers are.
func ValidName(name string) bool {
	for i := range len(name) {
		c := name[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// ValidValue reports whether value has no control character but the tab
// (RFC 9110, section 5.5).
func ValidValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// Cut cuts a list at its first separator outside quoted strings (RFC 9110, section
// 5.6.4). It is not ok if a quote does not end.
func Cut(list string, separator byte) (first, rest string, ok bool) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == separator && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return list, "", !quoted
}
