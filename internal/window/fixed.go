package window

import (
	"time"

	"github.com/weir-go/weir"
)

// Fixed is a quota of Limit units in each window of Calendar. It is a value,
// and serves any number of counts. The zero Fixed admits nothing; without a
// Calendar, Limit is for all time.
type Fixed struct {
	Limit    int // units per window. Zero or less: none
	Calendar Calendar
}

// A Count is the state of a Fixed quota: the units used in one window. It is
// comparable, and the zero Count is unused. It counts until its window ends, whatever
// becomes of the Calendar. The fields serve callers that store it in another form.
type Count struct {
	End  time.Duration // of the window, > 0; zero: there is none yet
	Used int           // >= 0
}

// Take takes n units at now if the window has them left, and returns the new count and
// the decision; a denial leaves the count as it was. With n = 0, it is allowed and
// changes nothing. If n exceeds Limit, RetryAfter is weir.Never. Otherwise RetryAfter
// of a denial, and ResetAfter if any unit is used, is the time until the window ends.
// It panics if n < 0.
func (f Fixed) Take(c Count, now time.Duration, n int) (Count, weir.Decision) {
	check(n)
	w := c
	if at := max(now, 0); at >= c.End && c.End != weir.Never {
		_, end := f.Calendar.At(at)
		w = Count{End: end}
	}
	var d weir.Decision
	room := max(f.Limit, 0) - w.Used
	switch {
	case n == 0:
		d.OK = true
	case n <= room:
		d.OK = true
		w.Used += n
		room -= n
		c = w
	case n > f.Limit:
		d.RetryAfter = weir.Never
	default:
		d.RetryAfter = until(w.End, now)
	}
	d.Remaining = max(room, 0)
	if w.Used > 0 {
		d.ResetAfter = until(w.End, now)
	}
	return c, d
}

// Refund gives back up to n units if now is in the window of the count, and
// returns the new count. now is the instant of the take; the present serves
// too, but then units of a past window may be given back to this one. It
// panics if n < 0.
func (f Fixed) Refund(c Count, now time.Duration, n int) Count {
	check(n)
	if _, end := f.Calendar.At(max(now, 0)); end == c.End {
		c.Used -= min(n, c.Used)
	}
	return c
}

// Charge counts n units at now even if they exceed Limit, for work that cost more than
// its estimate. It returns the new count and the number of units counted: it does not
// count units that would exceed Limit by more than maxDebt. Debt ends with the window.
// It panics if n < 0.
func (f Fixed) Charge(c Count, now time.Duration, n, maxDebt int) (Count, int) {
	f.Limit = beyond(f.Limit, maxDebt)
	return charge(f.Take, c, now, n)
}
