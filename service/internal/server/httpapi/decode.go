package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// A decoder reads the requests of a batch from JSON. It rejects members that are
// unknown, spelled in another case or repeated, text that is not UTF-8, and numbers
// that are not whole. It stops at the first error.
type decoder struct {
	text  string
	at    int
	began int  // where the last string began
	lines bool // a request must not go over a line's end
	err   error

	clean func(key string) (string, *fault)
	most  int // requests
}

// errMany is the error of a batch with too many requests.
var errMany = errors.New("a batch of too many requests")

// batch reads a whole body: a list of requests, or an object with one.
func (d *decoder) batch(b *batch) {
	switch d.peek() {
	case '[':
		d.requests(b)
	case '{':
		d.object(b)
	default:
		d.fail("want an object, or an array of requests")
	}
	if d.peek() != 0 || d.at < len(d.text) {
		d.fail("unexpected text after the end")
	}
}

// eachLine reads one request on each line.
func (d *decoder) eachLine(b *batch) {
	for d.lines = true; d.err == nil; {
		switch d.peek() {
		case 0:
			if d.at < len(d.text) {
				d.fail("want a request")
			}
			return
		case '\n':
			d.at++
			continue
		}
		d.append(b)
		if d.peek() != '\n' && d.at < len(d.text) {
			d.fail("want the end of the line")
		}
	}
}

// object reads an object with the requests.
func (d *decoder) object(b *batch) {
	var requests, all, ids bool
	d.at++
	for first := true; d.more('}', first); first = false {
		switch name := d.member(); name {
		case "requests":
			d.once(&requests, name)
			if d.peek() != '[' {
				d.fail("requests must be an array")
				return
			}
			d.requests(b)
		case "all":
			d.once(&all, name)
			b.all = d.boolean() || b.all
		case "ids":
			d.once(&ids, name)
			b.ids = d.boolean() || b.ids
		default:
			d.unknown(name, "a batch has requests, all and ids")
		}
	}
	if !requests {
		d.fail("requests is missing")
	}
}

// requests reads an array of requests.
func (d *decoder) requests(b *batch) {
	d.at++
	for first := true; d.more(']', first); first = false {
		d.append(b)
	}
}

// append reads a request.
func (d *decoder) append(b *batch) {
	if len(b.requests) == d.most {
		d.end(errMany)
		return
	}
	if d.peek() != '{' {
		d.fail("want a request, an object")
		return
	}
	start := d.at
	d.at++
	req := decider.Request{N: 1}
	var key, n bool
	for first := true; d.more('}', first); first = false {
		switch name := d.member(); name {
		case "key":
			d.once(&key, name)
			req.Key = d.key()
		case "n":
			d.once(&n, name)
			req.N = d.whole()
		default:
			d.unknown(name, "a request has key and n")
		}
	}
	if !key {
		d.failAt(start, "key is missing")
	}
	b.requests = append(b.requests, req)
}

// fail records an error here, unless there is one already.
func (d *decoder) fail(format string, args ...any) { d.failAt(d.at, format, args...) }

// failAt records an error at a place, unless there is one already, and ends the
// text.
func (d *decoder) failAt(at int, format string, args ...any) {
	if d.err != nil {
		return
	}
	before := d.text[:at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	d.end(fmt.Errorf("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...)))
}

// end ends the text with an error.
func (d *decoder) end(err error) { d.err, d.at = err, len(d.text) }

// unknown records an unknown member.
func (d *decoder) unknown(name, known string) {
	d.failAt(d.began, "unknown member %q: %s", name, known)
}

// once records that a member was read.
func (d *decoder) once(seen *bool, name string) {
	if *seen {
		d.failAt(d.began, "%s is given twice", name)
	}
	*seen = true
}

// peek returns the next byte that is not space, or 0 at the end or after an error.
func (d *decoder) peek() byte {
	for ; d.at < len(d.text); d.at++ {
		switch c := d.text[d.at]; c {
		case ' ', '\t', '\r':
		case '\n':
			if d.lines {
				return c
			}
		default:
			return c
		}
	}
	return 0
}

// more reports whether there is another element or member. If not, it reads the
// closing byte.
func (d *decoder) more(closing byte, first bool) bool {
	c := d.peek()
	if c == closing {
		d.at++
		return false
	}
	if !first {
		if c != ',' {
			d.fail("want , or %c", closing)
			return false
		}
		d.at++
		d.peek()
	}
	return d.err == nil
}

// member reads the name of a member, and the colon.
func (d *decoder) member() string {
	name := d.string()
	if d.peek() != ':' {
		d.fail("want a colon")
		return ""
	}
	d.at++
	return name
}

// key reads a key.
func (d *decoder) key() string {
	key, f := d.clean(d.string())
	if f != nil {
		d.failAt(d.began, "%s", f.text)
	}
	return key
}

// string reads a string. The result is a part of the text unless it has escapes.
func (d *decoder) string() string {
	if d.peek() != '"' {
		d.fail("want a string")
		return ""
	}
	d.began = d.at
	end := d.at + 1
	for end < len(d.text) && plain[d.text[end]] {
		end++
	}
	d.at = end
	if end == len(d.text) || d.text[end] != '"' {
		return d.odd()
	}
	d.at++
	return d.text[d.began+1 : end]
}

// plain marks the bytes that need no check inside a string.
var plain = func() (is [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

// odd reads the rest of a string, from a byte that is not plain.
func (d *decoder) odd() string {
	escaped := false
	for i := d.at; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '"':
			literal := d.text[d.began : i+1]
			d.at = i + 1
			switch {
			case !utf8.ValidString(literal):
				d.failAt(d.began, "text must be UTF-8")
			case escaped:
				return d.unescaped(literal)
			}
			return literal[1 : i-d.began]
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			d.failAt(i, "a control character in a string")
			return ""
		}
	}
	d.failAt(d.began, "unterminated string")
	return ""
}

// unescaped decodes the escapes of a string.
func (d *decoder) unescaped(literal string) (s string) {
	if err := json.Unmarshal([]byte(literal), &s); err != nil {
		d.failAt(d.began, "invalid escape")
	}
	return s
}

// whole reads a number from 0 to maxN.
func (d *decoder) whole() int {
	d.peek()
	start := d.at
	var n uint64
	for ; d.at < len(d.text) && '0' <= d.text[d.at] && d.text[d.at] <= '9' && n <= maxN; d.at++ {
		n = n*10 + uint64(d.text[d.at]-'0')
	}
	digits := d.text[start:d.at]
	longer := d.at < len(d.text) && strings.IndexByte("+-.0123456789Ee", d.text[d.at]) >= 0
	if digits == "" || digits[0] == '0' && digits != "0" || n > maxN || longer {
		d.failAt(start, "n must be %s", wants(paramN))
	}
	return int(n)
}

// boolean reads true or false.
func (d *decoder) boolean() bool {
	d.peek()
	for _, b := range [...]struct {
		text  string
		value bool
	}{{"true", true}, {"false", false}} {
		if strings.HasPrefix(d.text[d.at:], b.text) {
			d.at += len(b.text)
			return b.value
		}
	}
	d.fail("want true or false")
	return false
}
