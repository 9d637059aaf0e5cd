package ratelimitfield

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An item is an Item of a structured field (RFC 9651, section 3.3): a bare item
// with parameters. A bare item is an int64 (Integer), float64 (Decimal), string
// (String), token, []byte (Byte Sequence), bool, date or displayString.
type item struct {
	value  any
	params map[string]any
}

type (
	token         string
	date          int64
	displayString string
)

// parseList parses the lines of a field as a List of Items (RFC 9651, section
// 4.2.1). ok is false if the field is malformed or has an Inner List.
func parseList(lines []string) (items []item, ok bool) {
	ok = eachMember(lines, func(p *parser) bool {
		i, ok := p.item()
		items = append(items, i)
		return ok
	})
	return items, ok
}

// parseDictionary parses the lines of a field as a Dictionary of Items with a value (RFC 9651,
// section 4.2.2).
func parseDictionary(lines []string) (members map[string]item, ok bool) {
	members = map[string]item{}
	ok = eachMember(lines, func(p *parser) bool {
		key, ok := p.key()
		if !ok || !p.skip('=') {
			return false
		}
		members[key], ok = p.item()
		return ok
	})
	return members, ok
}

// eachMember parses the members of a List or a Dictionary, until one is malformed.
func eachMember(lines []string, parse func(*parser) bool) (ok bool) {
	p := &parser{rest: strings.Trim(strings.Join(lines, ", "), " ")}
	for p.rest != "" {
		if !parse(p) {
			return false
		}
		p.rest = strings.TrimLeft(p.rest, " \t")
		if p.rest == "" {
			return true
		}
		if !p.skip(',') {
			return false
		}
		p.rest = strings.TrimLeft(p.rest, " \t")
		if p.rest == "" {
			return false // a trailing comma
		}
	}
	return true
}

// A parser holds what is left of a field to parse.
type parser struct{ rest string }

// skip consumes c if it is the next character.
func (p *parser) skip(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// take consumes the longest prefix of accepted characters.
func (p *parser) take(accept func(byte) bool) string {
	n := 0
	for n < len(p.rest) && accept(p.rest[n]) {
		n++
	}
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

// until consumes the text up to the next end, and end itself.
func (p *parser) until(end byte) (text string, ok bool) {
	text, rest, ok := strings.Cut(p.rest, string(end))
	if ok {
		p.rest = rest
	}
	return text, ok
}

func (p *parser) item() (i item, ok bool) {
	if i.value, ok = p.bareItem(); !ok {
		return item{}, false
	}
	i.params = map[string]any{}
	for p.skip(';') {
		p.rest = strings.TrimLeft(p.rest, " ")
		key, ok := p.key()
		if !ok {
			return item{}, false
		}
		var value any = true
		if p.skip('=') {
			if value, ok = p.bareItem(); !ok {
				return item{}, false
			}
		}
		i.params[key] = value
	}
	return i, true
}

// key consumes the key of a parameter or of a member of a Dictionary.
func (p *parser) key() (key string, ok bool) {
	if p.rest == "" || !isLower(p.rest[0]) && p.rest[0] != '*' {
		return "", false
	}
	return p.take(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 }), true
}

// bareItem parses by the first character (RFC 9651, section 4.2.3.1).
func (p *parser) bareItem() (value any, ok bool) {
	if p.rest == "" {
		return nil, false
	}
	switch c := p.rest[0]; {
	case c == '-' || isDigit(c):
		return p.number()
	case c == '*' || isLower(c|0x20):
		return token(p.take(func(c byte) bool {
			return isLower(c|0x20) || isDigit(c) || strings.IndexByte(":/!#$%&'*+-.^_`|~", c) >= 0
		})), true
	}
	switch {
	case p.skip('"'):
		return p.quoted()
	case p.skip(':'):
		text, ok := p.until(':')
		b, err := base64.StdEncoding.DecodeString(text)
		return b, ok && err == nil
	case p.skip('?'):
		yes := p.skip('1')
		return yes, yes || p.skip('0')
	case p.skip('@'):
		n, ok := p.number()
		seconds, whole := n.(int64)
		return date(seconds), ok && whole
	case p.skip('%'):
		return p.display()
	}
	return nil, false
}

// number parses an Integer of at most 15 digits, or a Decimal of at most 12
// digits before and 3 after the point (RFC 9651, section 4.2.4).
func (p *parser) number() (value any, ok bool) {
	sign := int64(1)
	if p.skip('-') {
		sign = -1
	}
	whole := p.take(isDigit)
	if whole == "" || len(whole) > 15 {
		return nil, false
	}
	if !p.skip('.') {
		n, err := strconv.ParseInt(whole, 10, 64)
		return sign * n, err == nil
	}
	fraction := p.take(isDigit)
	if len(whole) > 12 || fraction == "" || len(fraction) > 3 {
		return nil, false
	}
	f, err := strconv.ParseFloat(whole+"."+fraction, 64)
	return math.Copysign(f, float64(sign)), err == nil
}

// quoted parses a String after its opening quote.
func (p *parser) quoted() (value any, ok bool) {
	var b []byte
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return string(b), true
		case c == '\\':
			i++
			if i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return nil, false
			}
			b = append(b, p.rest[i])
		case c < ' ' || c > '~':
			return nil, false
		default:
			b = append(b, c)
		}
	}
	return nil, false
}

// display parses a Display String after its percent sign: UTF-8 with two lower
// case hexadecimal digits for an escaped byte.
func (p *parser) display() (value any, ok bool) {
	if !p.skip('"') {
		return nil, false
	}
	text, ok := p.until('"')
	var b []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c < ' ' || c > '~':
			return nil, false
		case c == '%':
			if i+2 >= len(text) {
				return nil, false
			}
			escaped, err := hex.DecodeString(text[i+1 : i+3])
			if err != nil || text[i+1:i+3] != strings.ToLower(text[i+1:i+3]) {
				return nil, false
			}
			b = append(b, escaped...)
			i += 2
		default:
			b = append(b, c)
		}
	}
	return displayString(b), ok && utf8.Valid(b)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
