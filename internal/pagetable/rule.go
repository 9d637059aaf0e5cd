package pagetable

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/window"
)

// Bounds of a Window: a larger Limit counts as MaxLimit, and a shorter Period as
// MinPeriod. A value holds no more.
const (
	MaxLimit  = 1<<42 - 1
	MinPeriod = time.Millisecond
)

// A Value in a table of windows is the count of a key. Of fixed windows it is the
// window's end, and the events counted in it. Of sliding ones it has, in the
// lower bits of its words, the events of the last window and of this one and,
// above that, the two halves of this window's number.
const (
	usedBits = 42
	usedMask = 1<<usedBits - 1
	halfBits = 64 - usedBits // of a number: 2⁴⁴ windows of MinPeriod are 557 years
)

// A Rule is the Quota of a keyed.Window, and what can be done to counts under it. It does not
// change.
type Rule struct {
	window.Quota // Limit + maxDebt <= MaxLimit; Period >= MinPeriod; without a Calendar, windows begin with a key's first event
	maxDebt      int
}

// NewRule returns the rule of a keyed.Window. If w has a Calendar, none of its windows is
// longer than w.Period. It counts time as the table does, since 1970. maxDebt is Config's.
func NewRule(w window.Quota, maxDebt int) *Rule {
	r := &Rule{Quota: w}
	r.Limit, r.Period = min(max(w.Limit, 0), MaxLimit), max(w.Period, MinPeriod)
	r.Sliding = w.Sliding && !r.Dated()
	if w.Period <= 0 {
		r.Period = weir.Never
	}
	if maxDebt == 0 {
		maxDebt = r.Limit
	}
	r.maxDebt = min(max(maxDebt, 0), MaxLimit-r.Limit)
	return r
}

// Alike reports whether counts mean the same under both.
func (r *Rule) Alike(q *Rule) bool {
	return r.Period == q.Period && r.Sliding == q.Sliding && r.Calendar == q.Calendar
}

// Dated reports whether the rule has the windows of a Calendar.
func (r *Rule) Dated() bool { return r.Calendar != window.Calendar{} }

// quota returns the Quota for a count with a limit. If windows begin with a key's first
// event and that of the count is over, one begins or ends at the instant at.
func (r *Rule) quota(v Value, at time.Duration, limit int) window.Quota {
	q := r.Quota
	q.Limit = min(limit, MaxLimit)
	if !r.Sliding && at >= time.Duration(v.A) && !r.Dated() {
		q.Calendar = window.Every(r.Period, at)
	}
	return q
}

// number returns the number of the window of a sliding count.
func (c Value) number() uint64 { return c.A>>usedBits<<halfBits | c.B>>usedBits }

// last and this return the events of the last window and of this one.
func (c Value) last() uint64 { return c.A & usedMask }
func (c Value) this() uint64 { return c.B & usedMask }

func slidingCount(number, last, used uint64) Value {
	return Value{number>>halfBits<<usedBits | last, number<<usedBits | used}
}

// number returns the number of the window that an instant is in.
func (r *Rule) number(at time.Duration) uint64 { return uint64(max(at, 0) / r.Period) }

// count returns the count in a Value; value is its inverse.
func (r *Rule) count(v Value) window.Count {
	if r.Sliding {
		return window.Count{At: time.Duration(v.number()) * r.Period, Last: int(v.last()), Used: int(v.this())}
	}
	return window.Count{At: time.Duration(v.A), Used: int(v.B)}
}

func (r *Rule) value(c window.Count) Value {
	if r.Sliding {
		return slidingCount(uint64(c.At/r.Period), uint64(c.Last), uint64(c.Used))
	}
	return Value{uint64(c.At), uint64(c.Used)}
}

// Take is window's Take. A window that is to begin does so now.
func (r *Rule) Take(v Value, now time.Duration, n, limit int) (Value, weir.Decision) {
	q := &r.Quota // faster than a copy (BenchmarkTake of keyedtable)
	if limit != r.Limit || !r.Sliding && now >= time.Duration(v.A) && !r.Dated() {
		own := r.quota(v, now, limit)
		q = &own
	}
	c, d := q.Take(r.count(v), now, n)
	return r.value(c), d
}

// Charge is window's Charge.
func (r *Rule) Charge(v Value, now time.Duration, n int) (Value, int) {
	q := r.quota(v, now, r.Limit)
	c, took := q.Charge(r.count(v), now, n, r.maxDebt)
	return r.value(c), took
}

// Refund gives back up to n of the events that were counted at an instant, if
// that is in the present window or, if windows slide, in the one before, and returns how many.
func (r *Rule) Refund(v Value, at, now time.Duration, n int) (Value, int) {
	was := r.count(v)
	if r.Sliding && r.number(at)+1 < r.number(now) || !r.Sliding && now >= was.At && was.At != weir.Never {
		return v, 0
	}
	if r.Sliding && time.Duration(r.number(at)+1)*r.Period == was.At {
		c := was
		c.Last -= min(n, c.Last)
		return r.value(c), was.Last - c.Last
	}
	q := r.quota(v, was.At, r.Limit)
	c := q.Refund(was, at, n)
	if c.Used == 0 && !r.Sliding {
		return Value{}, was.Used // the next event is the first
	}
	return r.value(c), was.Used - c.Used
}

// Used returns how many events count at the instant now, and how long it takes until none of them
// does.
func (r *Rule) Used(c Value, now time.Duration) (n int, reset time.Duration) {
	_, d := r.Take(c, now, 0, MaxLimit)
	return MaxLimit - d.Remaining, d.ResetAfter
}

// Ahead returns how long it takes until n events more are counted, one by one.
// If they are the first, the count is a floor, and they begin a window. With a
// Calendar it is an upper bound.
func (r *Rule) Ahead(c Value, now time.Duration, n int, first bool) time.Duration {
	_, d := r.Take(c, now, 0, r.Limit)
	switch room := d.Remaining; {
	case n <= room:
		return 0
	case r.Limit == 0:
		return weir.Never
	case r.Sliding:
		return r.aheadSliding(c, now, n)
	case room > 0:
		n -= room
		if c, _ = r.Take(c, now, room, r.Limit); first {
			c = r.Begin(c, now)
		}
	}
	_, d = r.Take(c, now, 1, r.Limit)
	windows := time.Duration((n - 1) / r.Limit)
	if windows > (weir.Never-d.RetryAfter)/r.Period {
		return weir.Never
	}
	return d.RetryAfter + windows*r.Period
}

// aheadSliding goes from window to window. In each of them, n that come one by
// one are there when n are that come at once.
func (r *Rule) aheadSliding(c Value, began time.Duration, n int) time.Duration {
	now, gained := began, 0
	for i := 0; ; i++ {
		start := time.Duration(r.number(now)) * r.Period
		if start > weir.Never-r.Period {
			return weir.Never
		}
		end := start + r.Period
		_, d := r.Take(c, end-1, 0, r.Limit)
		if n <= d.Remaining {
			_, d = r.Take(c, now, n, r.Limit)
			return now - began + d.RetryAfter
		}
		n -= d.Remaining
		c, _ = r.Take(c, end-1, d.Remaining, r.Limit)
		now = end
		// Soon every second window is like the other.
		if two := gained + d.Remaining; i >= 4 && two > 0 {
			pairs := (n - 1) / two
			if time.Duration(pairs) > (weir.Never-now)/(2*r.Period) {
				return weir.Never
			}
			n -= pairs * two
			now += time.Duration(pairs) * 2 * r.Period
			c = slidingCount(c.number()+2*uint64(pairs), c.last(), c.this())
		}
		gained = d.Remaining
	}
}

// Begin gives a key that starts from a floor its own window. With the rest of
// the floor's, a period could meet three windows: that, and one on either side.
// Windows of a Calendar are the same for all keys.
func (r *Rule) Begin(c Value, now time.Duration) Value {
	if now = max(now, 0); !r.Sliding && !r.Dated() {
		c.A = uint64(now + min(r.Period, weir.Never-now))
	}
	return c
}

// A Moment is the Law of windows at an instant.
type Moment struct {
	*Rule
	now  time.Duration
	this uint64  // the number of the window
	unit float64 // one, by the period
	fade float64 // the share of the last window that is left
}

// At returns the Law at the instant now.
func (r *Rule) At(now time.Duration) Moment {
	m := Moment{Rule: r, now: now, this: r.number(now), unit: 1 / float64(r.Period)}
	m.fade = 1 - float64(now-time.Duration(m.this)*r.Period)*m.unit
	return m
}

// weight is the events that count, as the bits of a float64, which are in the
// same order. Of equals among fixed windows, the one that ends first weighs less.
func (m Moment) Weight(c Value) uint64 { return math.Float64bits(m.events(c)) }

func (m *Moment) events(c Value) float64 {
	if !m.Sliding {
		if end := time.Duration(c.A); c.B > 0 && end > m.now {
			return float64(c.B) + float64(end-m.now)*m.unit
		}
		return 0
	}
	switch n := c.number(); {
	case n >= m.this:
		return float64(c.this()) + float64(c.last())*m.fade
	case n+1 == m.this:
		return float64(c.this()) * m.fade
	}
	return 0
}

// Spare implements Law.
func (m Moment) Spare(l *Layout, p *Page, print uint64) (best int, live bool) {
	var least float64
	i := l.home(print)
	for range reach {
		w := m.events(l.Get(p, i+1))
		if w == 0 {
			return i + 1, false
		}
		if best == 0 || w < least {
			best, least = i+1, w
		}
		if i += l.Words; i >= Words {
			i = l.First
		}
	}
	return best, true
}

// Join implements Law.
func (m Moment) Join(a, b Value) Value { return m.Rule.Join(a, b, m.now) }

// join returns a count that is at any time at least as much as either.
func (r *Rule) Join(a, b Value, now time.Duration) Value {
	switch {
	case r.Sliding:
		n := max(a.number(), b.number())
		a, b = a.rolled(n), b.rolled(n)
		return slidingCount(n, max(a.last(), b.last()), max(a.this(), b.this()))
	case now >= time.Duration(a.A):
		return b
	case now >= time.Duration(b.A):
		return a
	}
	return Value{max(a.A, b.A), max(a.B, b.B)}
}

// Sum returns the count of a key of which events were counted in two places. Of windows that
// begin with a key's first event, the one that began first holds them all.
func (r *Rule) Sum(a, b Value, now time.Duration) Value {
	switch {
	case r.Sliding:
		n := max(a.number(), b.number())
		a, b = a.rolled(n), b.rolled(n)
		return slidingCount(n, min(a.last()+b.last(), MaxLimit), min(a.this()+b.this(), MaxLimit))
	case now >= time.Duration(a.A):
		return b
	case now >= time.Duration(b.A):
		return a
	}
	return Value{min(a.A, b.A), min(a.B+b.B, MaxLimit)}
}

// rolled moves a sliding count into a later window.
func (c Value) rolled(number uint64) Value {
	switch number - c.number() {
	case 0:
		return c
	case 1:
		return slidingCount(number, c.this(), 0)
	}
	return Value{}
}

// Moved returns a count under another rule: what counted under it comes now.
func (r *Rule) Moved(c Value, now time.Duration, from *Rule) Value {
	if r.Alike(from) {
		return c
	}
	used, _ := from.Used(c, now)
	c, _ = r.Take(Value{}, now, used, MaxLimit)
	return c
}

// Restored returns a count of a snapshot that was made at the instant then. A
// clock that was set back since must not make it last longer, nor may anything
// else make it more than it can be.
func (r *Rule) Restored(c Value, then, now time.Duration) Value {
	if r.Sliding {
		return slidingCount(min(c.number(), r.number(now)), c.last(), c.this())
	}
	if r.Dated() {
		if _, end := r.Calendar.At(now); time.Duration(min(c.A, math.MaxInt64)) > now {
			c.A = uint64(end)
		}
		return Value{c.A, min(c.B, MaxLimit)}
	}
	end := time.Duration(min(c.A, math.MaxInt64))
	end -= min(max(then-now, 0), end)
	return Value{uint64(min(end, now+min(r.Period, weir.Never-now))), min(c.B, MaxLimit)}
}
