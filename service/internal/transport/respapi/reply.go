package respapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A reply is the bytes of replies that are not sent yet. RESP3 has types that RESP2 does
// not: there, a map is an array of fields and values in turn, and null is a null string.
type reply struct {
	b     []byte
	resp3 bool
}

// head appends the first line of a value with a number.
func (r *reply) head(kind byte, n int64) {
	if n >= 0 && n < 10 {
		r.b = append(r.b, kind, byte('0'+n), '\r', '\n')
		return
	}
	r.b = append(strconv.AppendInt(append(r.b, kind), n, 10), '\r', '\n')
}

func (r *reply) array(n int) { r.head('*', int64(n)) }

func (r *reply) integer(n int64) { r.head(':', n) }

// fields begins a map of n fields.
func (r *reply) fields(n int) {
	if r.resp3 {
		r.head('%', int64(n))
	} else {
		r.array(2 * n)
	}
}

func (r *reply) bulk(s string) {
	r.head('$', int64(len(s)))
	r.b = append(append(r.b, s...), '\r', '\n')
}

func (r *reply) null() {
	if r.resp3 {
		r.b = append(r.b, "_\r\n"...)
	} else {
		r.b = append(r.b, "$-1\r\n"...)
	}
}

// status appends a simple string, which must have no line end.
func (r *reply) status(s string) { r.b = append(append(append(r.b, '+'), s...), '\r', '\n') }

func (r *reply) ok() { r.b = append(r.b, "+OK\r\n"...) }

// err appends an error. Its text begins with a code in upper case. Bytes that would end the
// line become spaces.
func (r *reply) err(text string) {
	text = strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, text)
	r.b = append(append(append(r.b, '-'), text...), '\r', '\n')
}

// A list counts the fields of a map: their number is known at its end.
type list struct{ at, n int }

// begin begins a map.
func (r *reply) begin() list { return list{at: len(r.b)} }

// field appends the name of a field. Its value must follow.
func (r *reply) field(l *list, name string) {
	l.n++
	r.bulk(name)
}

func (r *reply) number(l *list, name string, n int64) {
	r.field(l, name)
	r.integer(n)
}

func (r *reply) text(l *list, name, text string) {
	r.field(l, name)
	r.bulk(text)
}

// millis appends a field of milliseconds, rounded up.
func (r *reply) millis(l *list, name string, d time.Duration) {
	r.number(l, name, int64((d+time.Millisecond-1)/time.Millisecond))
}

// allowed appends the field of a decision, 1 or 0.
func (r *reply) allowed(l *list, ok bool) {
	n := int64(0)
	if ok {
		n = 1
	}
	r.number(l, "allowed", n)
}

// retry appends the fields of a denial.
func (r *reply) retry(l *list, why weir.Reason, rule string, after time.Duration) {
	if why != 0 {
		r.text(l, "reason", why.String())
	}
	if rule != "" {
		r.text(l, "rule", rule)
	}
	if after > 0 && after != weir.Never {
		r.millis(l, "retry_after_ms", after)
	}
}

// step appends a field for a decision that is degraded.
func (r *reply) step(l *list, s decider.Step) {
	if s.Degraded() {
		r.text(l, "degraded", s.String())
	}
}

// end inserts the head of a map.
func (r *reply) end(l list) {
	to := len(r.b)
	r.fields(l.n)
	head := len(r.b) - to
	var b [16]byte
	copy(b[:], r.b[to:])
	copy(r.b[l.at+head:], r.b[l.at:to])
	copy(r.b[l.at:], b[:head])
}
