package window

import (
	"math"
	"math/bits"
	"time"

	"github.com/weir-go/weir"
)

// A Quota is a number of units in a window of time. It is a value, and serves any
// number of counts. The zero Quota admits nothing.
//
// Windows of a Calendar start from zero. If Sliding is set, windows follow Every(Period,
// 0), and the units of the last one fade out: at elapsed into a window, the estimate is
//
//	used of the last window · (1 − elapsed/Period) + used of this one
//
// which is Cloudflare's formula (see the package). It is exact, without rounding.
type Quota struct {
	Limit    int      // units. Zero or less: none
	Calendar Calendar // if zero, Limit is for all time
	Sliding  bool
	Period   time.Duration // of sliding windows. Zero or less: 292 years, as long as a Duration can be
}

// A Count is the state of a Quota: the units used in one window and, if windows slide, in
// the one before it. It is comparable, and the zero Count is unused. The units of a window
// count in it even if the Quota changes. The fields serve callers that store it in another form.
type Count struct {
	At   time.Duration // the start of the window, if it slides, else its end; >= 0
	Last int           // units of the window before, >= 0
	Used int           // of this one, >= 0
}

// Take takes n units at now if the estimate and they are within Limit, and returns the new
// count and the decision; a denial leaves the count as it was. With n = 0, it is allowed and
// changes nothing. If n exceeds Limit, RetryAfter is weir.Never. Otherwise RetryAfter of a
// denial is the shortest wait after which n units are allowed if no other units are taken,
// exact to the nanosecond. ResetAfter is the time until the estimate is zero. It panics if
// n < 0.
func (q *Quota) Take(c Count, now time.Duration, n int) (Count, weir.Decision) {
	check(n)
	w, end := c, c.At
	if q.Sliding || max(now, 0) >= c.At && c.At != weir.Never {
		w, end = q.at(c, now)
	}
	room := max(max(q.Limit, 0)-w.Used, 0)
	if w.Last > 0 {
		room -= min(q.fading(w, now), room) // written so as not to overflow
	}
	var d weir.Decision
	switch {
	case n == 0:
		d.OK = true
	case n <= room:
		d.OK = true
		w.Used += n
		room -= n
		c = w
	case n > q.Limit:
		d.RetryAfter = weir.Never
	case q.Sliding:
		d.RetryAfter = until(q.fits(w, end, n), now)
	default:
		d.RetryAfter = until(end, now)
	}
	d.Remaining = room
	switch {
	case w.Used > 0 && q.Sliding:
		d.ResetAfter = until(after(end, q.period()), now)
	case w.Used > 0, w.Last > 0:
		d.ResetAfter = until(end, now)
	}
	return c, d
}

// Refund gives back up to n units if now is in the window of the count, and returns the
// new count. now is the instant of the take; the present serves too, but then units of a
// past window may be given back to this one. It panics if n < 0.
func (q *Quota) Refund(c Count, now time.Duration, n int) Count {
	check(n)
	if w, _ := q.window(now); w.At == c.At {
		c.Used -= min(n, c.Used)
	}
	return c
}

// Charge counts n units at now even if they exceed Limit, for work that cost more than its
// estimate. It returns the new count and the number of units counted: it does not count
// units that would bring the estimate above Limit by more than maxDebt. It panics if n < 0.
func (q *Quota) Charge(c Count, now time.Duration, n, maxDebt int) (Count, int) {
	check(n)
	debt := *q
	debt.Limit = max(q.Limit, 0)
	debt.Limit += min(max(maxDebt, 0), math.MaxInt-debt.Limit)
	_, d := debt.Take(c, now, 0)
	n = min(n, d.Remaining)
	c, _ = debt.Take(c, now, n)
	return c, n
}

func (q *Quota) period() time.Duration {
	if q.Period <= 0 {
		return weir.Never
	}
	return q.Period
}

// window returns an unused count of the window that now is in, and the end of that window.
func (q *Quota) window(now time.Duration) (w Count, end time.Duration) {
	now = max(now, 0)
	if q.Sliding {
		w.At = now - now%q.period()
		return w, after(w.At, q.period())
	}
	_, w.At = q.Calendar.At(now)
	return w, w.At
}

// at moves a count to the window that now is in, unless windows slide and that is earlier,
// and returns the end of the window.
func (q *Quota) at(c Count, now time.Duration) (w Count, end time.Duration) {
	if !q.Sliding {
		return q.window(now)
	}
	w, end = q.window(max(now, c.At))
	switch since := w.At - c.At; {
	case since <= 0:
		w.Last, w.Used = c.Last, c.Used
	case since <= q.period():
		w.Last = c.Used
	}
	return w, end
}

// fading returns ⌈last·(period−elapsed)/period⌉. The product has up to 126 bits.
func (q *Quota) fading(w Count, now time.Duration) int {
	period := uint64(q.period())
	elapsed := uint64(max(now, w.At) - w.At)
	hi, lo := bits.Mul64(uint64(w.Last), period-elapsed)
	n, rest := bits.Div64(hi, lo, period) // n <= last
	if rest > 0 {
		n++
	}
	return int(n)
}

// fits returns the first instant at which a window that slides has room for n units, which
// is not yet, 0 < n <= Limit. Where left units are left beside the used ones,
// last·(period−elapsed)/period <= left from elapsed = period − ⌊left·period/last⌋.
func (q *Quota) fits(w Count, end time.Duration, n int) time.Duration {
	start, last, left := w.At, w.Last, q.Limit-n-w.Used
	if left < 0 { // not before this window is the last one
		start, last, left = end, w.Used, q.Limit-n
	}
	hi, lo := bits.Mul64(uint64(left), uint64(q.period()))
	early, _ := bits.Div64(hi, lo, uint64(last)) // left < last, or there would be room
	return after(start, q.period()-time.Duration(early))
}
