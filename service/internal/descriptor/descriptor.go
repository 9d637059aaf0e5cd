// Package descriptor writes descriptors as keys. In Envoy's rate-limit service, a descriptor
// names the dimensions of a request: a domain, and a list of entries of a key and a value.
//
//	domain|key=value|key2=value2
//
// is the key of a descriptor, so that every transport reaches the same limits. Two
// descriptors never have the same key. In the text, %XX stands for a byte, in upper case:
//
//   - % and |, and in domains and keys =;
//   - control characters, and bytes that are not UTF-8;
//   - white space at either end of the text, because transports trim it.
//
// A Tree finds the limit of a descriptor as envoyproxy/ratelimit does.
package descriptor

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Entry is one dimension of a descriptor.
type Entry struct{ Key, Value string }

// Append appends the key of a descriptor to b.
func Append(b []byte, domain string, entries []Entry) []byte {
	begin := len(b)
	b = appendText(b, domain, true)
	for _, e := range entries {
		b = append(b, '|')
		b = appendText(b, e.Key, true)
		b = append(b, '=')
		b = appendText(b, e.Value, false)
	}
	return escapeEnds(b, begin)
}

// plain has the bytes that stand for themselves; those from 0x80 need a closer look.
var plain = func() (set [256]bool) {
	for c := ' '; c <= '~'; c++ {
		set[c] = c != '%' && c != '|'
	}
	return set
}()

// appendText appends a text; name says that it is a domain or a key.
func appendText(b []byte, s string, name bool) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] && (c != '=' || !name) {
			i++
			continue
		}
		n := 1
		if c >= utf8.RuneSelf {
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			if (r != utf8.RuneError || n > 1) && !unicode.IsControl(r) {
				i += n
				continue
			}
		}
		b = append(b, s[from:i]...)
		b = appendEscaped(b, s[i:i+n])
		i += n
		from = i
	}
	return append(b, s[from:]...)
}

func appendEscaped[T string | []byte](b []byte, bytes T) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(bytes) {
		b = append(b, '%', digits[bytes[i]>>4], digits[bytes[i]&15])
	}
	return b
}

// escapeEnds escapes white space at both ends of the text that begins at an index.
func escapeEnds(b []byte, begin int) []byte {
	if last, n := utf8.DecodeLastRune(b[begin:]); unicode.IsSpace(last) {
		space := string(b[len(b)-n:])
		b = appendEscaped(b[:len(b)-n], space)
	}
	if first, n := utf8.DecodeRune(b[begin:]); unicode.IsSpace(first) {
		rest := string(b[begin:])
		b = append(appendEscaped(b[:begin], rest[:n]), rest[n:]...)
	}
	return b
}

// Replace returns a key of Append with other values: values[i], unless it is empty, in place of the
// value of the entry i.
func Replace(key string, values []string) string {
	var buf [256]byte
	head, rest, more := strings.Cut(key, "|")
	b := append(buf[:0], head...)
	for i := 0; more; i++ {
		var entry string
		entry, rest, more = strings.Cut(rest, "|")
		if i < len(values) && values[i] != "" {
			name, _, _ := strings.Cut(entry, "=")
			b = append(append(append(b, '|'), name...), '=')
			if b = appendText(b, values[i], false); !more {
				b = escapeEnds(b, 0)
			}
		} else {
			b = append(append(b, '|'), entry...)
		}
	}
	return string(b)
}

// Parse returns the descriptor of a key. It accepts exactly the texts that Append writes.
func Parse(key string) (domain string, entries []Entry, ok bool) {
	head, rest, more := strings.Cut(key, "|")
	if domain, ok = Unescape(head); !ok {
		return "", nil, false
	}
	for more {
		var entry, name, value string
		entry, rest, more = strings.Cut(rest, "|")
		if name, value, ok = strings.Cut(entry, "="); !ok {
			return "", nil, false
		}
		var e Entry
		if e.Key, ok = Unescape(name); !ok {
			return "", nil, false
		}
		if e.Value, ok = Unescape(value); !ok {
			return "", nil, false
		}
		entries = append(entries, e)
	}
	var buf [256]byte
	if string(Append(buf[:0], domain, entries)) != key {
		return "", nil, false
	}
	return domain, entries, true
}

// unescape resolves %XX.
// Unescape resolves %XX in a part of a key.
func Unescape(s string) (text string, ok bool) {
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s, true
	}
	b := append(make([]byte, 0, len(s)), s[:i]...)
	for ; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := digit(s[i+1]), digit(s[i+2])
		if high > 15 || low > 15 {
			return "", false
		}
		b = append(b, high<<4|low)
		i += 2
	}
	return string(b), true
}

// digit returns the value of a hexadecimal digit; more than 15 if it is none.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
