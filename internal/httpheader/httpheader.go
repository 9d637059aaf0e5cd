// Package httpheader validates names and values of headers, so that a bad
// configuration fails when it is read.
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
