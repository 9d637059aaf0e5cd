// Package respwire reads the commands that clients of Redis send.
package respwire

import (
	"bytes"
	"fmt"
)

// Bounds of a command.
const (
	// MaxArgs bounds the arguments of a command, its name included.
	MaxArgs = 64
	// maxInline bounds a command that is written as a line, in bytes.
	maxInline = 4 << 10
	// maxNumber bounds the line with a length, in bytes.
	maxNumber = 20
	// maxBesides bounds the bytes of a command besides its longest argument.
	maxBesides = 8 << 10
)

// A protocolError is the error of bytes that are no command. The connection cannot go on.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

const (
	errLineEnd   = protocolError("expected CRLF")
	errCount     = protocolError("invalid multibulk length")
	errLongCount = protocolError("too big mbulk count string")
	errSize      = protocolError("invalid bulk length")
	errLongSize  = protocolError("too big bulk count string")
	errLarge     = protocolError("the command is too large")
	errInline    = protocolError("too big inline request")
	errQuotes    = protocolError("unbalanced quotes in request")
)

// A Decoder reads commands: arrays of bulk strings, and lines.
type Decoder struct {
	MaxArg int      // bytes of an argument
	Args   [][]byte // of the last command: parts of the bytes that Decode was given
}

// Most returns the bound of a command, in bytes.
func (d *Decoder) Most() int { return d.MaxArg + maxBesides }

// Decode reads the first command of b. It returns its length, or 0 if b has only a part of
// it. There may be no arguments: such a command has no reply. It can change the bytes of the
// command.
func (d *Decoder) Decode(b []byte) (n int, err error) {
	d.Args = d.Args[:0]
	switch {
	case len(b) == 0:
	case b[0] == '*':
		n, err = d.bulks(b)
	default:
		n, err = d.line(b)
	}
	if n == 0 && err == nil && len(b) >= d.Most() {
		err = errLarge
	}
	return n, err
}

// bulks reads a command that is an array of bulk strings.
func (d *Decoder) bulks(b []byte) (n int, err error) {
	count, at, err := number(b, 1, errCount, errLongCount)
	switch {
	case err != nil || at == 0:
		return 0, err
	case count > MaxArgs:
		return 0, errCount
	}
	for range count {
		if at == len(b) {
			return 0, nil
		}
		if b[at] != '$' {
			return 0, protocolError(fmt.Sprintf("expected '$', got %q", rune(b[at])))
		}
		size, from, err := number(b, at+1, errSize, errLongSize)
		switch {
		case err != nil || from == 0:
			return 0, err
		case size < 0 || size > d.MaxArg:
			return 0, errSize
		}
		end := from + size
		if end+2 > d.Most() {
			return 0, errLarge
		}
		if end+2 > len(b) {
			return 0, nil
		}
		if b[end] != '\r' || b[end+1] != '\n' {
			return 0, errLineEnd
		}
		d.Args = append(d.Args, b[from:end:end])
		at = end + 2
	}
	return at, nil
}

// number reads the number of a line, which begins at an index. It returns the index after
// the line, or 0 if its end is missing. A negative number is -1.
func number(b []byte, at int, invalid, long protocolError) (n, next int, err error) {
	if at+3 <= len(b) && b[at+1] == '\r' && b[at+2] == '\n' && b[at] >= '0' && b[at] <= '9' { // most are so
		return int(b[at] - '0'), at + 3, nil
	}
	negative := at < len(b) && b[at] == '-'
	first := at
	if negative {
		first++
	}
	for i := first; ; i++ {
		switch {
		case i-at > maxNumber:
			return 0, 0, long
		case i == len(b):
			return 0, 0, nil
		case b[i] >= '0' && b[i] <= '9':
			n = min(n*10+int(b[i]-'0'), 1<<40)
			continue
		case b[i] != '\r' || i == first:
			return 0, 0, invalid
		case i+1 == len(b):
			return 0, 0, nil
		case b[i+1] != '\n':
			return 0, 0, errLineEnd
		case negative:
			n = -1
		}
		return n, i + 2, nil
	}
}

// line reads a command that is written as a line: words, which can have quotes.
func (d *Decoder) line(b []byte) (n int, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxInline)], '\n')
	switch {
	case end < 0 && len(b) >= maxInline:
		return 0, errInline
	case end < 0:
		return 0, nil
	}
	for rest := b[:end]; ; {
		rest = bytes.TrimLeft(rest, " \t\r\v\f\x00")
		if len(rest) == 0 {
			return end + 1, nil
		}
		if len(d.Args) == MaxArgs {
			return 0, errCount
		}
		var word []byte
		var ok bool
		if word, rest, ok = cutWord(rest); !ok {
			return 0, errQuotes
		}
		d.Args = append(d.Args, word)
	}
}

// cutWord returns the first word of a line, which it unquotes in place. Within " there are
// the escapes of C and \xHH; within ', only \'. ok is false if a quote does not end, or if
// another word follows it without space.
func cutWord(b []byte) (word, rest []byte, ok bool) {
	quote, to := byte(0), 0
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case quote == 0 && isSpace(c):
			return b[:to:to], b[i:], true
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
			continue
		case quote != 0 && c == quote:
			if i+1 < len(b) && !isSpace(b[i+1]) {
				return nil, nil, false
			}
			quote = 0
			continue
		case quote == '"' && c == '\\' && i+3 < len(b) && b[i+1] == 'x' && hex(b[i+2]) >= 0 && hex(b[i+3]) >= 0:
			c = byte(hex(b[i+2])<<4 | hex(b[i+3]))
			i += 3
		case quote == '"' && c == '\\' && i+1 < len(b):
			i++
			c = unescape(b[i])
		case quote == '\'' && c == '\\' && i+1 < len(b) && b[i+1] == '\'':
			i++
			c = '\''
		}
		b[to] = c
		to++
	}
	return b[:to:to], nil, quote == 0
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
