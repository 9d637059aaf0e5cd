// Package batchjson reads batches of requests for tokens, in JSON or in lines of
// JSON.
//
//	{"requests": [{"key": "user:42", "n": 3}, {"key": "user:43"}], "all": true}
//
// It rejects members that are unknown, spelled in another case or repeated, text that
// is not UTF-8, and numbers that are not whole. Errors state the line and the column.
package batchjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Batch is the content of a text.
type Batch struct {
	Requests []decider.Request
	All, IDs bool
}

// Limits bound a Batch.
type Limits struct {
	Requests int
	Key      int // bytes of a key
}

// ErrMany is the error of a batch with too many requests.
var ErrMany = errors.New("too many requests")

// Read appends the requests of one JSON text: an array of them, or an object. It sets
// All and IDs if the object says so. Keys are parts of the text.
func (b *Batch) Read(text string, most Limits) error {
	d := decoder{Batch: b, text: text, most: most}
	d.body()
	return d.err
}

// ReadLines is Read for one request on each line.
func (b *Batch) ReadLines(text string, most Limits) error {
	d := decoder{Batch: b, text: text, most: most, lines: true}
	d.eachLine()
	return d.err
}

// A decoder reads a text. It stops at the first error.
type decoder struct {
	*Batch
	text  string
	at    int
	began int  // where the last string began
	lines bool // a request must not go over a line's end
	most  Limits
	err   error
}

// body reads a whole body: a list of requests, or an object with one.
func (d *decoder) body() {
	switch d.peek() {
	case '[':
		d.list()
	case '{':
		d.object()
	default:
		d.fail("want an object, or an array of requests")
	}
	if d.peek() != 0 || d.at < len(d.text) {
		d.fail("unexpected text after the end")
	}
}

// object reads an object with the requests.
func (d *decoder) object() {
	d.at++
	var requests, all, ids bool
	for first := true; d.more('}', first); first = false {
		switch name := d.member(); name {
		case "requests":
			d.once(&requests, name)
			d.list()
		case "all":
			d.once(&all, name)
			d.All = d.boolean() || d.All
		case "ids":
			d.once(&ids, name)
			d.IDs = d.boolean() || d.IDs
		default:
			d.failAt(d.began, "unknown member %q: a batch has requests, all and ids", name)
		}
	}
	if !requests {
		d.fail("requests is missing")
	}
}

// eachLine reads one request on each line.
func (d *decoder) eachLine() {
	for d.err == nil {
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
		d.request()
		if d.peek() != '\n' && d.at < len(d.text) {
			d.fail("want the end of the line")
		}
	}
}

// list reads an array of requests.
func (d *decoder) list() {
	if d.peek() != '[' {
		d.fail("requests must be an array")
		return
	}
	d.at++
	for first := true; d.more(']', first); first = false {
		d.request()
	}
}

// request reads a request.
func (d *decoder) request() {
	switch {
	case len(d.Requests) == d.most.Requests:
		d.end(ErrMany)
		return
	case d.peek() != '{':
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
			d.failAt(d.began, "unknown member %q: a request has key and n", name)
		}
	}
	if !key {
		d.failAt(start, "key is missing")
	}
	d.Requests = append(d.Requests, req)
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

// once records that a member was read.
func (d *decoder) once(seen *bool, name string) {
	if *seen {
		d.failAt(d.began, "%s is given twice", name)
	}
	*seen = true
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

// key reads a key.
func (d *decoder) key() string {
	key, err := decider.ParseKey(d.string(), d.most.Key)
	if err != nil {
		d.failAt(d.began, "%v", err)
	}
	return key
}

// string reads a string. The result is a part of the text if that is plain.
func (d *decoder) string() string {
	if d.peek() != '"' {
		d.fail("want a string")
		return ""
	}
	d.began = d.at
	text, plain := d.text, true
	for end := d.at + 1; end < len(text); end++ {
		switch c := text[end]; {
		case c > '"' && c != '\\' && c < utf8.RuneSelf: // most text
		case c == '"':
			d.at = end + 1
			if plain {
				return text[d.began+1 : end]
			}
			return d.unescaped(text[d.began:d.at])
		case c < ' ':
			d.failAt(end, "a control character in a string")
			return ""
		case c == '\\':
			plain = false
			end++
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	d.failAt(d.began, "unterminated string")
	return ""
}

// unescaped decodes a string that may have escapes.
func (d *decoder) unescaped(literal string) (s string) {
	if !utf8.ValidString(literal) {
		d.failAt(d.began, "text must be UTF-8")
	} else if json.Unmarshal([]byte(literal), &s) != nil {
		d.failAt(d.began, "invalid escape")
	} else if strings.ContainsRune(s, utf8.RuneError) && hasHalfPair(literal) {
		d.failAt(d.began, "half of a surrogate pair")
	}
	return s
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

// whole reads a number from 0 to 2³¹-1.
func (d *decoder) whole() int {
	d.peek()
	start := d.at
	for d.at < len(d.text) && inNumber(d.text[d.at]) {
		d.at++
	}
	digits := d.text[start:d.at]
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || digits[0] == '0' && digits != "0" {
		d.failAt(start, "n must be a whole number from 0 to 2147483647")
	}
	return int(n)
}

// inNumber reports whether a JSON number can have a byte.
func inNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

// boolean reads true or false.
func (d *decoder) boolean() bool {
	d.peek()
	for _, text := range []string{"true", "false"} {
		if strings.HasPrefix(d.text[d.at:], text) {
			d.at += len(text)
			return text == "true"
		}
	}
	d.fail("want true or false")
	return false
}
