// Package leafjson reads the exchanges of leaves, and writes the answers, in JSON: see package
// leaf for their types. It takes a small part of the time of encoding/json.
//
// It rejects members that are unknown, spelled in another case or repeated, text that is not
// UTF-8, and numbers that are negative. Errors state the line and the column.
package leafjson

import (
	"errors"
	"math"
	"strconv"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/wirejson/jsonscan"
	"github.com/weir-go/weir/service/internal/transport/wirejson/jsontext"
)

// Limits bound an exchange.
type Limits struct {
	Reports int
	Key     int // bytes of a key
	Leaf    int // bytes of the name of a leaf
}

// ErrMany is the error of an exchange with too many reports.
var ErrMany = errors.New("too many reports")

// Read reads an exchange, of which it reuses the slice. Keys are parts of the text, or nearly
// so: see decider.ParseKey.
func Read(text string, x *leaf.Exchange, most Limits) error {
	*x = leaf.Exchange{Reports: x.Reports[:0]}
	d := decoder{Exchange: x, Scanner: jsonscan.Scanner{Text: text}, most: most}
	d.exchange()
	if d.Peek() != 0 || d.At < len(d.Text) {
		d.Fail("unexpected text after the end")
	}
	return d.Err
}

// A decoder reads a text.
type decoder struct {
	*leaf.Exchange
	jsonscan.Scanner
	most Limits
}

// exchange reads the object.
func (d *decoder) exchange() {
	if d.Peek() != '{' {
		d.Fail("want an object with leaf, held and reports")
		return
	}
	d.At++
	var name, held, share, leave, reports bool
	for first := true; d.More('}', first); first = false {
		switch member := d.Member(); member {
		case "leaf":
			d.Once(&name, member)
			d.Leaf = d.name()
		case "held":
			d.Once(&held, member)
			d.Held = d.Whole(member, math.MaxInt32)
		case "share":
			d.Once(&share, member)
			d.Share = d.Boolean()
		case "leave":
			d.Once(&leave, member)
			d.Leave = d.Boolean()
		case "reports":
			d.Once(&reports, member)
			d.list()
		default:
			d.FailAt(d.Began, "unknown member %q: an exchange has leaf, held, share, leave and reports", member)
		}
	}
	if !name {
		d.Fail("leaf is missing")
	}
}

// name reads the name of a leaf, which must be as a key is.
func (d *decoder) name() string {
	name, err := decider.ParseKey(d.Quoted(), d.most.Leaf)
	if err != nil {
		d.FailAt(d.Began, "the name of the leaf is no valid key of at most %d bytes", d.most.Leaf)
	}
	return name
}

// list reads the reports.
func (d *decoder) list() {
	if d.Peek() != '[' {
		d.Fail("reports must be an array")
		return
	}
	d.At++
	for first := true; d.More(']', first); first = false {
		if len(d.Reports) == d.most.Reports {
			d.End(ErrMany)
			return
		}
		d.Reports = append(d.Reports, leaf.Report{})
		d.report(&d.Reports[len(d.Reports)-1])
	}
}

// report reads a report.
func (d *decoder) report(r *leaf.Report) {
	if d.Peek() != '{' {
		d.Fail("want a report, an object")
		return
	}
	start := d.At
	d.At++
	var key, used, wants, has, done bool
	for first := true; d.More('}', first); first = false {
		switch member := d.Member(); member {
		case "key":
			d.Once(&key, member)
			r.Key = d.Key(d.most.Key)
		case "used":
			d.Once(&used, member)
			r.Used = d.Whole(member, math.MaxInt32)
		case "wants":
			d.Once(&wants, member)
			r.Wants = d.Number(member)
		case "has":
			d.Once(&has, member)
			r.Has = d.Number(member)
		case "done":
			d.Once(&done, member)
			r.Done = d.Boolean()
		default:
			d.FailAt(d.Began, "unknown member %q: a report has key, used, wants, has and done", member)
		}
	}
	if !key {
		d.FailAt(start, "key is missing")
	}
}

// AppendStart appends an answer up to its assignments.
func AppendStart(b []byte, a *leaf.Answer) []byte {
	b = strconv.AppendInt(append(b, `{"ttlMs":`...), a.TTLMS, 10)
	b = strconv.AppendInt(append(b, `,"nextMs":`...), a.NextMS, 10)
	if a.Resync {
		b = append(b, `,"resync":true`...)
	}
	if a.Leaves != 0 {
		b = strconv.AppendInt(append(b, `,"leaves":`...), int64(a.Leaves), 10)
	}
	for i, key := range a.Watch {
		if i == 0 {
			b = append(b, `,"watch":[`...)
		} else {
			b = append(b, ',')
		}
		b = jsontext.AppendString(b, key)
	}
	if len(a.Watch) > 0 {
		b = append(b, ']')
	}
	return append(b, `,"assignments":[`...)
}

// End is the text after the last assignment.
const End = "]}\n"

// AppendAssignment appends an assignment.
func AppendAssignment(b []byte, a *leaf.Assignment) []byte {
	b = jsontext.AppendString(append(b, `{"key":`...), a.Key)
	b = appendNumber(append(b, `,"rate":`...), a.Rate)
	b = appendNumber(append(b, `,"burst":`...), a.Burst)
	if a.Unlimited {
		b = append(b, `,"unlimited":true`...)
	}
	if a.Learning {
		b = append(b, `,"learning":true`...)
	}
	if a.Contended {
		b = append(b, `,"contended":true`...)
	}
	if a.LimitRate != 0 {
		b = appendNumber(append(b, `,"limitRate":`...), a.LimitRate)
	}
	if a.LimitBurst != 0 {
		b = appendNumber(append(b, `,"limitBurst":`...), a.LimitBurst)
	}
	if a.Leaves != 0 {
		b = strconv.AppendInt(append(b, `,"leaves":`...), int64(a.Leaves), 10)
	}
	if a.Error != "" {
		b = jsontext.AppendString(append(b, `,"error":`...), a.Error)
	}
	return append(b, '}')
}

// appendNumber appends a number that is finite and not negative. It rounds down: to
// millionths, but for small and very large numbers.
func appendNumber(b []byte, x float64) []byte {
	if x != 0 && x < 1 || x >= 1e9 {
		return strconv.AppendFloat(b, x, 'g', -1, 64)
	}
	n := uint64(x * 1e6)
	b = strconv.AppendUint(b, n/1e6, 10)
	if n %= 1e6; n == 0 {
		return b
	}
	b = append(b, '.')
	for unit := uint64(1e5); n > 0; unit /= 10 {
		b = append(b, byte('0'+n/unit))
		n %= unit
	}
	return b
}
