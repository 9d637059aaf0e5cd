package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-go/weir/server"
)

// A decoder reads the requests of a batch from JSON. It is as strict as JSON is,
// and more: members are those that there are, spelled as they are, once; text is
// UTF-8; numbers are whole. The first fault ends it: err, found before at.
type decoder struct {
	text  string
	at    int
	name  int  // where the last member's name began
	lines bool // a request must not go over a line's end
	err   error

	clean func(key string) (string, *fault)
	most  int // requests
}

// errMany is that there are more requests than a batch may have.
var errMany = errors.New("a batch of too many requests")

// batch reads all: a list of requests, or an object that holds one.
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
		d.fail("there is more after the end")
	}
}

// eachLine reads requests that are one a line.
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

// object reads what holds the requests.
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

// requests reads an array of them.
func (d *decoder) requests(b *batch) {
	d.at++
	for first := true; d.more(']', first); first = false {
		d.append(b)
	}
}

// append reads a request.
func (d *decoder) append(b *batch) {
	if d.err != nil {
		return
	}
	if len(b.requests) == d.most {
		d.err = errMany
		return
	}
	if d.peek() != '{' {
		d.fail("want a request, an object")
		return
	}
	start := d.at
	d.at++
	req := server.Request{N: 1}
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
	if !key && d.err == nil {
		d.at = start
		d.fail("key is missing")
	}
	b.requests = append(b.requests, req)
}

// fail notes what is wrong here, unless something was before.
func (d *decoder) fail(format string, args ...any) {
	if d.err != nil {
		return
	}
	before := d.text[:d.at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	d.err = fmt.Errorf("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}

// unknown notes that there is no such member.
func (d *decoder) unknown(name, known string) {
	if d.err == nil {
		d.at = d.name
		d.fail("unknown member %q: %s", name, known)
	}
}

// once notes that a member has come.
func (d *decoder) once(seen *bool, name string) {
	if *seen && d.err == nil {
		d.at = d.name
		d.fail("%s is given twice", name)
	}
	*seen = true
}

// peek returns the next byte that is not space; 0 at the end, or after a fault.
func (d *decoder) peek() byte {
	if d.err != nil {
		return 0
	}
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

// more reports whether there is another element, or member, before what closes
// them, which it reads.
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
	d.peek()
	d.name = d.at
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
	d.peek()
	start := d.at
	key, f := d.clean(d.string())
	if f != nil && d.err == nil {
		d.at = start
		d.fail("%s", f.text)
	}
	return key
}

// string reads a string. It is a part of the text, unless it has escapes.
func (d *decoder) string() string {
	if d.peek() != '"' {
		d.fail("want a string")
		return ""
	}
	plain, ascii := true, true
	start := d.at
	for i := start + 1; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '"':
			literal := d.text[start : i+1]
			if !ascii && !utf8.ValidString(literal) {
				d.fail("text must be UTF-8")
				return ""
			}
			d.at = i + 1
			if plain {
				return literal[1 : len(literal)-1]
			}
			return d.unescaped(start)
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			d.at = i
			d.fail("a control character in a string")
			return ""
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	d.fail("a string without an end")
	return ""
}

// unescaped returns the string that begins at start and ends here.
func (d *decoder) unescaped(start int) (s string) {
	if err := json.Unmarshal([]byte(d.text[start:d.at]), &s); err != nil {
		d.at = start
		d.fail("an escape that is none")
	}
	return s
}

// whole reads a number from 0 to maxN.
func (d *decoder) whole() int {
	d.peek()
	start := d.at
	for d.at < len(d.text) && strings.IndexByte("+-.0123456789Ee", d.text[d.at]) >= 0 {
		d.at++
	}
	literal := d.text[start:d.at]
	n, err := strconv.ParseUint(literal, 10, 31)
	if err != nil || len(literal) > 1 && literal[0] == '0' {
		d.at = start
		d.fail("n must be %s", wants(paramN))
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
