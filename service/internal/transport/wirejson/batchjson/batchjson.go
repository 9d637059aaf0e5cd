// Package batchjson reads batches of requests for tokens, in JSON or in lines of
// JSON.
//
//	{"requests": [{"key": "user:42", "n": 3}, {"key": "user:43"}], "all": true}
//	[{"key": "user:42", "n": 100, "at_most": true}]
//
// It rejects members that are unknown, spelled in another case or repeated, text that
// is not UTF-8, and numbers that are not whole. Errors state the line and the column.
package batchjson

import (
	"errors"
	"math"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/wirejson/jsonscan"
)

// A Batch is the content of a text.
type Batch struct {
	Requests []decider.Request
	All, IDs bool
	AtMost   []Partial // in order
}

// A Partial is a request that takes as many of N tokens as there are, N > 0.
type Partial struct{ Index, N int }

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
	d := decoder{Batch: b, Scanner: jsonscan.Scanner{Text: text}, most: most}
	d.body()
	return d.Err
}

// ReadLines is Read for one request on each line.
func (b *Batch) ReadLines(text string, most Limits) error {
	d := decoder{Batch: b, Scanner: jsonscan.Scanner{Text: text, Lines: true}, most: most}
	d.eachLine()
	return d.Err
}

// A decoder reads a text.
type decoder struct {
	*Batch
	jsonscan.Scanner
	most Limits
}

// body reads a whole body: a list of requests, or an object with one.
func (d *decoder) body() {
	switch d.Peek() {
	case '[':
		d.list()
	case '{':
		d.object()
	default:
		d.Fail("want an object, or an array of requests")
	}
	if d.Peek() != 0 || d.At < len(d.Text) {
		d.Fail("unexpected text after the end")
	}
}

// object reads an object with the requests.
func (d *decoder) object() {
	d.At++
	var requests, all, ids bool
	for first := true; d.More('}', first); first = false {
		switch name := d.Member(); name {
		case "requests":
			d.Once(&requests, name)
			d.list()
		case "all":
			d.Once(&all, name)
			d.All = d.Boolean() || d.All
		case "ids":
			d.Once(&ids, name)
			d.IDs = d.Boolean() || d.IDs
		default:
			d.FailAt(d.Began, "unknown member %q: a batch has requests, all and ids", name)
		}
	}
	if !requests {
		d.Fail("requests is missing")
	}
}

// eachLine reads one request on each line.
func (d *decoder) eachLine() {
	for d.Err == nil {
		switch d.Peek() {
		case 0:
			if d.At < len(d.Text) {
				d.Fail("want a request")
			}
			return
		case '\n':
			d.At++
			continue
		}
		d.request()
		if d.Peek() != '\n' && d.At < len(d.Text) {
			d.Fail("want the end of the line")
		}
	}
}

// list reads an array of requests.
func (d *decoder) list() {
	if d.Peek() != '[' {
		d.Fail("requests must be an array")
		return
	}
	d.At++
	for first := true; d.More(']', first); first = false {
		d.request()
	}
}

// request reads a request.
func (d *decoder) request() {
	switch {
	case len(d.Requests) == d.most.Requests:
		d.End(ErrMany)
		return
	case d.Peek() != '{':
		d.Fail("want a request, an object")
		return
	}
	start := d.At
	d.At++
	req := decider.Request{N: 1}
	var key, n, atMost, part bool
	for first := true; d.More('}', first); first = false {
		switch name := d.Member(); name {
		case "key":
			d.Once(&key, name)
			req.Key = d.Key(d.most.Key)
		case "n":
			d.Once(&n, name)
			req.N = d.Whole("n", math.MaxInt32)
		case "at_most":
			d.Once(&atMost, name)
			part = d.Boolean()
		default:
			d.FailAt(d.Began, "unknown member %q: a request has key, n and at_most", name)
		}
	}
	if !key {
		d.FailAt(start, "key is missing")
	}
	if part && req.N > 0 {
		d.AtMost = append(d.AtMost, Partial{len(d.Requests), req.N})
	}
	d.Requests = append(d.Requests, req)
}
