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
	"slices"
	"strconv"
	"strings"
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
		if !d.object(nil, "requests", "a batch has requests, all and ids") {
			d.fail("requests is missing")
		}
	default:
		d.fail("want an object, or an array of requests")
	}
	if d.peek() != 0 || d.at < len(d.text) {
		d.fail("unexpected text after the end")
	}
}

// member reads the value of a member of the batch or, if req is not nil, of a
// request. It returns false if there is no such member.
func (d *decoder) member(req *decider.Request, name string) bool {
	switch {
	case req != nil && name == "key":
		req.Key = d.key()
	case req != nil && name == "n":
		req.N = d.whole()
	case req != nil:
		return false
	case name == "requests" && d.peek() == '[':
		d.list()
	case name == "requests":
		d.fail("requests must be an array")
	case name == "all":
		d.All = d.boolean() || d.All
	case name == "ids":
		d.IDs = d.boolean() || d.IDs
	default:
		return false
	}
	return true
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
	d.Requests = append(d.Requests, decider.Request{N: 1})
	if !d.object(&d.Requests[len(d.Requests)-1], "key", "a request has key and n") {
		d.failAt(start, "key is missing")
	}
}

// object reads an object as member says, and reports whether it has a required member.
// known says which members there are.
func (d *decoder) object(req *decider.Request, required, known string) bool {
	d.at++
	var names [4]string
	seen := names[:0]
	for first := true; d.more('}', first); first = false {
		name := d.string()
		switch {
		case d.peek() != ':':
			d.fail("want a colon")
			return false
		case slices.Contains(seen, name):
			d.failAt(d.began, "%s is given twice", name)
			return false
		}
		d.at++
		if !d.member(req, name) {
			d.failAt(d.began, "unknown member %q: %s", name, known)
			return false
		}
		seen = append(seen, name)
	}
	return slices.Contains(seen, required)
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
	plain := true
	for end := d.at + 1; end < len(d.text); end++ {
		switch c := d.text[end]; {
		case c == '"':
			d.at = end + 1
			if plain {
				return d.text[d.began+1 : end]
			}
			return d.unescaped(d.text[d.began:d.at])
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
	}
	return s
}

// whole reads a number from 0 to 2³¹-1.
func (d *decoder) whole() int {
	d.peek()
	start := d.at
	for d.at < len(d.text) && '0' <= d.text[d.at] && d.text[d.at] <= '9' {
		d.at++
	}
	digits := d.text[start:d.at]
	n, err := strconv.ParseUint(digits, 10, 31)
	longer := d.at < len(d.text) && strings.IndexByte("+-.Ee", d.text[d.at]) >= 0
	if err != nil || longer || digits[0] == '0' && digits != "0" {
		d.failAt(start, "n must be a whole number from 0 to 2147483647")
	}
	return int(n)
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
