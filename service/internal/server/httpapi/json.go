package httpapi

import "unicode/utf8"

const hexadecimal = "0123456789abcdef"

// appendString appends text as a JSON string, like encoding/json without HTML
// escapes. Bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, text[start:i]...)
			b = appendEscape(b, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == '\u2028' || r == '\u2029' || r == utf8.RuneError && size == 1 {
			b = append(b, text[start:i]...)
			if r == utf8.RuneError {
				b = append(b, `\ufffd`...)
			} else {
				b = append(b, `\u202`...)
				b = append(b, hexadecimal[r&0xf])
			}
			start = i + size
		}
		i += size
	}
	b = append(b, text[start:]...)
	return append(b, '"')
}

// appendEscape appends a byte as an escape.
func appendEscape(b []byte, c byte) []byte {
	b = append(b, '\\')
	switch c {
	case '"', '\\':
		return append(b, c)
	case '\b':
		return append(b, 'b')
	case '\f':
		return append(b, 'f')
	case '\n':
		return append(b, 'n')
	case '\r':
		return append(b, 'r')
	case '\t':
		return append(b, 't')
	}
	return append(b, 'u', '0', '0', hexadecimal[c>>4], hexadecimal[c&0xf])
}
