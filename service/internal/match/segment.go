package match

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// Kinds is a set of kinds of characters.
type Kinds uint8

// The kinds.
const (
	Digits      Kinds = 1 << iota // 0 to 9
	Lower                         // a to z
	Upper                         // A to Z
	Punctuation                   // the rest of ASCII
	Wide                          // beyond ASCII
)

// KindsOf returns the kinds of the characters of a text.
func KindsOf(text string) (all Kinds) {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			all |= Wide
		case '0' <= c && c <= '9':
			all |= Digits
		case 'a' <= c && c <= 'z':
			all |= Lower
		case 'A' <= c && c <= 'Z':
			all |= Upper
		default:
			all |= Punctuation
		}
	}
	return all
}

// Split yields the segments of a key, and what is between them: separators, escapes of descriptors such as %7C, and
// other texts without a letter and a digit.
func Split(key, separators string) iter.Seq2[string, bool] {
	return func(yield func(part string, segment bool) bool) {
		for rest := key; rest != ""; {
			n := segmentLen(rest, separators)
			segment := n > 0 && KindsOf(rest[:n]) != Punctuation
			for !segment && n < len(rest) {
				if escaped(rest[n:]) {
					n += 3
				} else if more := segmentLen(rest[n:], separators); more == 0 {
					n++
				} else if KindsOf(rest[n:n+more]) == Punctuation {
					n += more
				} else {
					break
				}
			}
			if !yield(rest[:n], segment) {
				return
			}
			rest = rest[n:]
		}
	}
}

// segmentLen returns the length of the segment that a text begins with.
func segmentLen(s, separators string) (n int) {
	for n < len(s) && strings.IndexByte(separators, s[n]) < 0 && !escaped(s[n:]) {
		n++
	}
	return n
}

// escaped reports whether a text begins with an escape of a descriptor.
func escaped(s string) bool { return len(s) > 2 && s[0] == '%' && isHex(s[1]) && isHex(s[2]) }

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'F' }
