package window

import (
	"math/bits"
	"time"

	"github.com/weir-go/weir"
)

// Sliding is a quota of Limit units in a window of length Period that slides
// with time, by estimate: windows follow Every(Period, 0), and at
// elapsed into one of them the estimate is
//
//	used of the last window · (1 − elapsed/Period) + used of this one
//
// which is Cloudflare's formula (see the package). It is exact, without
// rounding. A Sliding is a value, and serves any number of counts. The zero
// Sliding admits nothing.
type Sliding struct {
	Limit  int           // units. Zero or less: none
	Period time.Duration // > 0. Zero or less: as long as a Duration can be, 292 years
}

// Counts is the state of a Sliding quota: the units used in one window and in the one
// before it. It is comparable, and the zero Counts is unused. Under another Period than
// before, units count from the beginning of their window. The fields serve callers that
// store it in another form.
type Counts struct {
	Start time.Duration // of the window, >= 0
	Last  int           // units of the window before, >= 0
	Used  int           // of this one, >= 0
}

// Take takes n units at now if the estimate and they are within Limit, and returns the
// new counts and the decision; a denial leaves the counts as they were. With n = 0, it
// is allowed and changes nothing. If n exceeds Limit, RetryAfter is weir.Never.
// Otherwise RetryAfter of a denial is the shortest wait after which n units are allowed
// if no other units are taken, exact to the nanosecond. ResetAfter is the time until
// the estimate is zero. It panics if n < 0.
func (s Sliding) Take(c Counts, now time.Duration, n int) (Counts, weir.Decision) {
	check(n)
	w := s.at(c, now)
	var d weir.Decision
	room := s.room(w, now)
	switch {
	case n == 0:
		d.OK = true
	case n <= room:
		d.OK = true
		w.Used += n
		room -= n
		c = w
	case n > s.Limit:
		d.RetryAfter = weir.Never
	default:
		d.RetryAfter = until(s.fits(w, n), now)
	}
	d.Remaining = room
	end := after(w.Start, s.period())
	switch {
	case w.Used > 0:
		d.ResetAfter = until(after(end, s.period()), now)
	case w.Last > 0:
		d.ResetAfter = until(end, now)
	}
	return c, d
}

// Refund gives back up to n units if now is in the window of the counts, and
// returns the new counts. now is the instant of the take; the present serves
// too, but then units of a past window may be given back to this one. It
// panics if n < 0.
func (s Sliding) Refund(c Counts, now time.Duration, n int) Counts {
	check(n)
	if now = max(now, 0); now-now%s.period() == c.Start {
		c.Used -= min(n, c.Used)
	}
	return c
}

// Charge counts n units at now even if they exceed Limit, for work that cost more than
// its estimate. It returns the new counts and the number of units counted: it does not
// count units that would bring the estimate above Limit by more than maxDebt. It panics
// if n < 0.
func (s Sliding) Charge(c Counts, now time.Duration, n, maxDebt int) (Counts, int) {
	s.Limit = beyond(s.Limit, maxDebt)
	return charge(s.Take, c, now, n)
}

func (s Sliding) period() time.Duration {
	if s.Period <= 0 {
		return weir.Never
	}
	return s.Period
}

// at moves the counts to the window that now is in, unless that is earlier.
func (s Sliding) at(c Counts, now time.Duration) Counts {
	now = max(now, c.Start)
	w := Counts{Start: now - now%s.period()}
	switch since := w.Start - c.Start; {
	case since <= 0:
		w.Last, w.Used = c.Last, c.Used
	case since <= s.period():
		w.Last = c.Used
	}
	return w
}

// room returns ⌊Limit − used − last·(period−elapsed)/period⌋, or zero if that is
// less. The product has up to 126 bits.
func (s Sliding) room(w Counts, now time.Duration) int {
	period := uint64(s.period())
	elapsed := uint64(max(now, w.Start) - w.Start)
	hi, lo := bits.Mul64(uint64(w.Last), period-elapsed)
	fading, rest := bits.Div64(hi, lo, period) // fading <= last
	if rest > 0 {
		fading++
	}
	left := max(s.Limit, 0) - w.Used
	return left - min(int(fading), left) // written so as not to overflow
}

// fits returns the first instant at which there is room for n units, which is
// not yet, 0 < n <= Limit. Where left units are left beside the used ones,
// last·(period−elapsed)/period <= left from elapsed = period − ⌊left·period/last⌋.
func (s Sliding) fits(w Counts, n int) time.Duration {
	start, last, left := w.Start, w.Last, s.Limit-n-w.Used
	if left < 0 { // not before this window is the last one
		start, last, left = after(start, s.period()), w.Used, s.Limit-n
	}
	hi, lo := bits.Mul64(uint64(left), uint64(s.period()))
	early, _ := bits.Div64(hi, lo, uint64(last)) // left < last, or there would be room
	return after(start, s.period()-time.Duration(early))
}
