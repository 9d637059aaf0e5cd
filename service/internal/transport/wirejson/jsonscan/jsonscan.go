// Package jsonscan reads JSON of a known form without reflection and, mostly, without
// allocation. It rejects text that is not UTF-8. Errors state the line and the column.
package jsonscan

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Scanner reads a text. It stops at the first error.
type Scanner struct {
	Text  string
	At    int
	Began int  // where the last string began
	Lines bool // a value must not go over a line's end
	Err   error
}

// Member reads the name of a member, and the colon.
func (s *Scanner) Member() string {
	name := s.Quoted()
	if s.Peek() != ':' {
		s.Fail("want a colon")
		return ""
	}
	s.At++
	return name
}

// Once records that a member was read.
func (s *Scanner) Once(seen *bool, name string) {
	if *seen {
		s.FailAt(s.Began, "%s is given twice", name)
	}
	*seen = true
}

// Fail records an error here, unless there is one already.
func (s *Scanner) Fail(format string, args ...any) { s.FailAt(s.At, format, args...) }

// FailAt records an error at a place, unless there is one already, and ends the
// text.
func (s *Scanner) FailAt(at int, format string, args ...any) {
	if s.Err != nil {
		return
	}
	before := s.Text[:at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	s.End(fmt.Errorf("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...)))
}

// End ends the text with an error.
func (s *Scanner) End(err error) { s.Err, s.At = err, len(s.Text) }

// Peek returns the next byte that is not space, or 0 at the end or after an error.
func (s *Scanner) Peek() byte {
	for ; s.At < len(s.Text); s.At++ {
		switch c := s.Text[s.At]; c {
		case ' ', '\t', '\r':
		case '\n':
			if s.Lines {
				return c
			}
		default:
			return c
		}
	}
	return 0
}

// More reports whether there is another element or member. If not, it reads the
// closing byte.
func (s *Scanner) More(closing byte, first bool) bool {
	c := s.Peek()
	if c == closing {
		s.At++
		return false
	}
	if !first {
		if c != ',' {
			s.Fail("want , or %c", closing)
			return false
		}
		s.At++
		s.Peek()
	}
	return s.Err == nil
}

// Key reads a key of at most that many bytes: see decider.ParseKey.
func (s *Scanner) Key(most int) string {
	key, err := decider.ParseKey(s.Quoted(), most)
	if err != nil {
		s.FailAt(s.Began, "%v", err)
	}
	return key
}

// Quoted reads a string. The result is a part of the text if that is plain.
func (s *Scanner) Quoted() string {
	if s.Peek() != '"' {
		s.Fail("want a string")
		return ""
	}
	s.Began = s.At
	text, plain := s.Text, true
	for end := s.At + 1; end < len(text); end++ {
		switch c := text[end]; {
		case c > '"' && c != '\\' && c < utf8.RuneSelf: // most text
		case c == '"':
			s.At = end + 1
			if plain {
				return text[s.Began+1 : end]
			}
			return s.unescaped(text[s.Began:s.At])
		case c < ' ':
			s.FailAt(end, "a control character in a string")
			return ""
		case c == '\\':
			plain = false
			end++
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	s.FailAt(s.Began, "unterminated string")
	return ""
}

// unescaped decodes a string that may have escapes.
func (s *Scanner) unescaped(literal string) (text string) {
	if !utf8.ValidString(literal) {
		s.FailAt(s.Began, "text must be UTF-8")
	} else if json.Unmarshal([]byte(literal), &text) != nil {
		s.FailAt(s.Began, "invalid escape")
	} else if strings.ContainsRune(text, utf8.RuneError) && hasHalfPair(literal) {
		s.FailAt(s.Began, "half of a surrogate pair")
	}
	return text
}

// hasHalfPair reports whether an escape of a valid string is half of a surrogate pair.
// encoding/json reads each of them as U+FFFD: different keys would become the same.
func hasHalfPair(literal string) bool {
	for {
		_, escape, found := strings.Cut(literal, `\`)
		if !found {
			return false
		}
		if literal = escape[1:]; escape[0] != 'u' {
			continue
		}
		first, rest := codeUnit(escape)
		if utf16.IsSurrogate(first) {
			if !strings.HasPrefix(rest, `\u`) {
				return true
			}
			var second rune
			if second, rest = codeUnit(rest[1:]); utf16.DecodeRune(first, second) == utf8.RuneError {
				return true
			}
		}
		literal = rest
	}
}

// codeUnit reads uXXXX, and returns the text after it.
func codeUnit(escape string) (unit rune, rest string) {
	n, _ := strconv.ParseUint(escape[1:5], 16, 16)
	return rune(n), escape[5:]
}

// Whole reads a whole number from 0 to most, of a member.
func (s *Scanner) Whole(name string, most int) int {
	s.Peek()
	start := s.At
	for s.At < len(s.Text) && inNumber(s.Text[s.At]) {
		s.At++
	}
	digits := s.Text[start:s.At]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || digits[0] == '0' && digits != "0" || n > uint64(most) {
		s.FailAt(start, "%s must be a whole number from 0 to %d", name, most)
		return 0
	}
	return int(n)
}

// Number reads a number, of a member, that is not negative.
func (s *Scanner) Number(name string) float64 {
	s.Peek()
	start, text := s.At, s.Text
	mantissa, digits, point := uint64(0), 0, -1 // digits before the point, if there is one
	at := start
	for ; at < len(text); at++ {
		switch c := text[at]; {
		case '0' <= c && c <= '9':
			mantissa = 10*mantissa + uint64(c-'0')
			digits++
			continue
		case c == '.' && point < 0 && digits > 0:
			point = digits
			continue
		}
		break
	}
	for s.At = at; s.At < len(text) && inNumber(text[s.At]); {
		s.At++
	}
	plain := s.At == at && digits > 0 && digits <= 15 && digits != point
	if plain && (text[start] != '0' || digits == 1 || point == 1) { // Clinger's fast path: both are exact
		if point < 0 {
			return float64(mantissa)
		}
		return float64(mantissa) / powers[digits-point]
	}
	n, err := strconv.ParseFloat(text[start:s.At], 64)
	if err != nil || !(n >= 0) || !json.Valid([]byte(text[start:s.At])) {
		s.FailAt(start, "%s must be a number >= 0", name)
		return 0
	}
	return n
}

// powers are powers of ten.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// inNumber reports whether a JSON number can have a byte.
func inNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

// Boolean reads true or false.
func (s *Scanner) Boolean() bool {
	s.Peek()
	for _, text := range []string{"true", "false"} {
		if strings.HasPrefix(s.Text[s.At:], text) {
			s.At += len(text)
			return text == "true"
		}
	}
	s.Fail("want true or false")
	return false
}
