package keyedtable

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/window"
)

// Bounds of a Window: a larger Limit counts as MaxLimit, and a shorter Period as
// MinPeriod. A value holds no more.
const (
	MaxLimit  = 1<<42 - 1
	MinPeriod = time.Millisecond
)

// Window is keyed.Window.
type Window struct {
	Limit   int
	Period  time.Duration
	Sliding bool
}

// A value in a table of windows is the count of a key. Of fixed windows it is the
// window's end, and the events counted in it. Of sliding ones it has, in the
// lower bits of its words, the events of the last window and of this one and,
// above that, the two halves of this window's number.
const (
	usedBits = 42
	usedMask = 1<<usedBits - 1
	halfBits = 64 - usedBits // of a number: 2⁴⁴ windows of MinPeriod are 557 years
)

// A rule is a Window, and what can be done to counts under it. It does not
// change.
type rule struct {
	limit, maxDebt int           // limit + maxDebt <= MaxLimit
	period         time.Duration // >= MinPeriod
	sliding        bool
}

// newRule returns the rule of a Window. maxDebt is Config's.
func newRule(w Window, maxDebt int) *rule {
	r := &rule{limit: min(max(w.Limit, 0), MaxLimit), period: max(w.Period, MinPeriod), sliding: w.Sliding}
	if w.Period <= 0 {
		r.period = weir.Never
	}
	if maxDebt == 0 {
		maxDebt = r.limit
	}
	r.maxDebt = min(max(maxDebt, 0), MaxLimit-r.limit)
	return r
}

// alike reports whether counts mean the same under both.
func (r *rule) alike(q *rule) bool { return r.period == q.period && r.sliding == q.sliding }

func (r *rule) slides(limit int) window.Sliding {
	return window.Sliding{Limit: min(limit, MaxLimit), Period: r.period}
}

// fixed returns the quota for a count. A window that is to begin does so now.
func (r *rule) fixed(c value, now time.Duration, limit int) window.Fixed {
	f := window.Fixed{Limit: min(limit, MaxLimit)}
	if now >= time.Duration(c.a) {
		f.Calendar = window.Every(r.period, now)
	}
	return f
}

func (c value) fixed() window.Count { return window.Count{End: time.Duration(c.a), Used: int(c.b)} }

func fixedCount(w window.Count) value { return value{uint64(w.End), uint64(w.Used)} }

// number returns the number of the window of a sliding count.
func (c value) number() uint64 { return c.a>>usedBits<<halfBits | c.b>>usedBits }

// last and this return the events of the last window and of this one.
func (c value) last() uint64 { return c.a & usedMask }
func (c value) this() uint64 { return c.b & usedMask }

func slidingCount(number, last, used uint64) value {
	return value{number>>halfBits<<usedBits | last, number<<usedBits | used}
}

// number returns the number of the window that an instant is in.
func (r *rule) number(at time.Duration) uint64 { return uint64(max(at, 0) / r.period) }

func (r *rule) unpacked(c value) window.Counts {
	return window.Counts{Start: time.Duration(c.number()) * r.period, Last: int(c.last()), Used: int(c.this())}
}

func (r *rule) packed(w window.Counts) value {
	return slidingCount(uint64(w.Start/r.period), uint64(w.Last), uint64(w.Used))
}

// take is window's Take.
func (r *rule) take(c value, now time.Duration, n, limit int) (value, weir.Decision) {
	if r.sliding {
		w, d := r.slides(limit).Take(r.unpacked(c), now, n)
		return r.packed(w), d
	}
	w, d := r.fixed(c, now, limit).Take(c.fixed(), now, n)
	return fixedCount(w), d
}

// charge is window's Charge.
func (r *rule) charge(c value, now time.Duration, n int) (value, int) {
	if r.sliding {
		w, took := r.slides(r.limit).Charge(r.unpacked(c), now, n, r.maxDebt)
		return r.packed(w), took
	}
	w, took := r.fixed(c, now, r.limit).Charge(c.fixed(), now, n, r.maxDebt)
	return fixedCount(w), took
}

// refund gives back up to n of the events that were counted at an instant, if
// that is in the present window, and returns how many.
func (r *rule) refund(c value, at, now time.Duration, n int) (value, int) {
	if r.sliding {
		if r.number(at) != r.number(now) {
			return c, 0
		}
		was := r.unpacked(c)
		w := r.slides(r.limit).Refund(was, at, n)
		return r.packed(w), was.Used - w.Used
	}
	was := c.fixed()
	if now >= was.End && was.End != weir.Never {
		return c, 0
	}
	w := window.Fixed{Calendar: window.Every(r.period, was.End)}.Refund(was, at, n)
	if w.Used == 0 {
		return value{}, was.Used // the next event is the first
	}
	return fixedCount(w), was.Used - w.Used
}

// used returns what counts at an instant, and how long anything does.
func (r *rule) used(c value, now time.Duration) (int, time.Duration) {
	_, d := r.take(c, now, 0, MaxLimit)
	return MaxLimit - d.Remaining, d.ResetAfter
}

// ahead returns how long it takes until n events more are counted, one by one.
// If they are the first, the count is a floor, and they begin a window.
func (r *rule) ahead(c value, now time.Duration, n int, first bool) time.Duration {
	_, d := r.take(c, now, 0, r.limit)
	switch room := d.Remaining; {
	case n <= room:
		return 0
	case r.limit == 0:
		return weir.Never
	case r.sliding:
		return r.aheadSliding(c, now, n)
	case room > 0:
		n -= room
		if c, _ = r.take(c, now, room, r.limit); first {
			c = r.begin(c, now)
		}
	}
	_, d = r.take(c, now, 1, r.limit)
	windows := time.Duration((n - 1) / r.limit)
	if windows > (weir.Never-d.RetryAfter)/r.period {
		return weir.Never
	}
	return d.RetryAfter + windows*r.period
}

// aheadSliding goes from window to window. In each of them, n that come one by
// one are there when n are that come at once.
func (r *rule) aheadSliding(c value, began time.Duration, n int) time.Duration {
	now, gained := began, 0
	for i := 0; ; i++ {
		start := time.Duration(r.number(now)) * r.period
		if start > weir.Never-r.period {
			return weir.Never
		}
		end := start + r.period
		_, d := r.take(c, end-1, 0, r.limit)
		if n <= d.Remaining {
			_, d = r.take(c, now, n, r.limit)
			return now - began + d.RetryAfter
		}
		n -= d.Remaining
		c, _ = r.take(c, end-1, d.Remaining, r.limit)
		now = end
		// Soon every second window is like the other.
		if two := gained + d.Remaining; i >= 4 && two > 0 {
			pairs := (n - 1) / two
			if time.Duration(pairs) > (weir.Never-now)/(2*r.period) {
				return weir.Never
			}
			n -= pairs * two
			now += time.Duration(pairs) * 2 * r.period
			c = slidingCount(c.number()+2*uint64(pairs), c.last(), c.this())
		}
		gained = d.Remaining
	}
}

// begin gives a key that starts from a floor its own window. With the rest of
// the floor's, a period could meet three windows: that, and one on either side.
func (r *rule) begin(c value, now time.Duration) value {
	if now = max(now, 0); !r.sliding {
		c.a = uint64(now + min(r.period, weir.Never-now))
	}
	return c
}

// A moment is the law of windows at an instant.
type moment struct {
	*rule
	now  time.Duration
	this uint64  // the number of the window
	unit float64 // one, by the period
	fade float64 // the share of the last window that is left
}

func (r *rule) at(now time.Duration) moment {
	m := moment{rule: r, now: now, this: r.number(now), unit: 1 / float64(r.period)}
	m.fade = 1 - float64(now-time.Duration(m.this)*r.period)*m.unit
	return m
}

// weight is the events that count, as the bits of a float64, which are in the
// same order. Of equals among fixed windows, the one that ends first weighs less.
func (m moment) weight(c value) uint64 { return math.Float64bits(m.events(c)) }

func (m *moment) events(c value) float64 {
	if !m.sliding {
		if end := time.Duration(c.a); c.b > 0 && end > m.now {
			return float64(c.b) + float64(end-m.now)*m.unit
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

func (m moment) spare(l *layout, p *page, print uint64) (best int, live bool) {
	var least float64
	i := l.home(print)
	for range reach {
		w := m.events(l.get(p, i+1))
		if w == 0 {
			return i + 1, false
		}
		if best == 0 || w < least {
			best, least = i+1, w
		}
		if i += l.words; i >= pageWords {
			i = l.first
		}
	}
	return best, true
}

func (m moment) join(a, b value) value { return m.rule.join(a, b, m.now) }

// join returns a count that is at any time at least as much as either.
func (r *rule) join(a, b value, now time.Duration) value {
	switch {
	case r.sliding:
		n := max(a.number(), b.number())
		a, b = a.rolled(n), b.rolled(n)
		return slidingCount(n, max(a.last(), b.last()), max(a.this(), b.this()))
	case now >= time.Duration(a.a):
		return b
	case now >= time.Duration(b.a):
		return a
	}
	return value{max(a.a, b.a), max(a.b, b.b)}
}

// rolled moves a sliding count into a later window.
func (c value) rolled(number uint64) value {
	switch number - c.number() {
	case 0:
		return c
	case 1:
		return slidingCount(number, c.this(), 0)
	}
	return value{}
}

// moved returns a count under another rule: what counted under it comes now.
func (r *rule) moved(c value, now time.Duration, from *rule) value {
	if r.alike(from) {
		return c
	}
	used, _ := from.used(c, now)
	c, _ = r.take(value{}, now, used, MaxLimit)
	return c
}

// restored returns a count of a snapshot that was made at the instant then. A
// clock that was set back since must not make it last longer, nor may anything
// else make it more than it can be.
func (r *rule) restored(c value, then, now time.Duration) value {
	if r.sliding {
		return slidingCount(min(c.number(), r.number(now)), c.last(), c.this())
	}
	end := time.Duration(min(c.a, math.MaxInt64))
	end -= min(max(then-now, 0), end)
	return value{uint64(min(end, now+min(r.period, weir.Never-now))), min(c.b, MaxLimit)}
}
