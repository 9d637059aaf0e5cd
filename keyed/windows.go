package keyed

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/internal/window"
)

// A larger Window.Limit counts as MaxLimit, and a shorter Period as MinPeriod.
const (
	MaxLimit  = 1<<42 - 1
	MinPeriod = time.Millisecond
)

// A Window is a quota: a number of events in a window of time.
type Window struct {
	Limit  int           // events allowed in a window; none if zero or less
	Period time.Duration // of a window. Zero or less: the window never ends
	// Calendar says when windows begin. If zero, a key's window begins with its first
	// event. Other Calendars than Sliding and Clock need no Period.
	Calendar Calendar
	Location *time.Location // of Calendar. If nil, UTC
}

// A Calendar says when windows begin, for all keys alike. A day begins when clocks at
// the Location first show its date, and ends when the next one begins: it has 23 or 25
// hours when clocks change. Weeks, months and years begin with their first day. Windows
// do not change if the clock of the computer is set.
type Calendar int

// The Calendars. Except in Sliding, each window counts from zero.
const (
	// Clock begins windows at multiples of Period since 1970, in UTC: minutes with the
	// minutes of the clock.
	Clock Calendar = 1 + iota
	// Sliding begins windows as Clock does, and lets the events of the last window fade
	// out over the next. Their estimate, elapsed into a window, is
	//
	//	events of the last window · (1 − elapsed/Period) + events of this one
	Sliding
	Day
	Week // from Monday (ISO 8601)
	WeekFromSunday
	WeekFromSaturday
	Month
	Year
)

// dates holds, for each Calendar of dates, its unit and the largest number of days in it.
var dates = map[Calendar]struct {
	unit window.Unit
	days time.Duration
}{
	Day:              {window.Day, 1},
	Week:             {window.WeekFromSunday + window.Unit(time.Monday), 7},
	WeekFromSunday:   {window.WeekFromSunday, 7},
	WeekFromSaturday: {window.WeekFromSunday + window.Unit(time.Saturday), 7},
	Month:            {window.Month, 31},
	Year:             {window.Year, 366},
}

// table returns the Window as the table of counts has it, or an error if its Calendar is
// unknown. Its Period bounds the length of a window: a day may have an hour more than 24.
func (w Window) table() (keyedtable.Window, error) {
	t := keyedtable.Window{Limit: w.Limit, Period: w.Period, Sliding: w.Calendar == Sliding}
	d, ok := dates[w.Calendar]
	switch {
	case ok:
		t.Calendar = window.Dates(d.unit, time.Unix(0, 0), cmp.Or(w.Location, time.UTC))
		t.Period = d.days*24*time.Hour + time.Hour
	case w.Calendar == Clock:
		t.Calendar = window.Every(w.Period, 0)
	case w.Calendar != 0 && w.Calendar != Sliding:
		return t, fmt.Errorf("keyed: Calendar = %d: must be 0, or from Clock to Year", w.Calendar)
	}
	return t, nil
}

// policy returns the Policy of the Window. That of a month has 31 days, and of a year 366.
func (w Window) policy() *Policy {
	p := &Policy{Limit: max(min(w.Limit, MaxLimit), 0)}
	if d, ok := dates[w.Calendar]; ok {
		p.Window = d.days * 24 * time.Hour
	} else if w.Period > 0 {
		p.Window = max(w.Period, MinPeriod)
	}
	if w.Calendar == Sliding && p.Window > 0 {
		p.Rate = float64(p.Limit) / p.Window.Seconds()
	}
	return p
}

// Windows counts the events of every key in windows of time. It is right where
// the promise to a client is about windows, such as "5 per calendar day". Otherwise
// prefer a Limiter, because a window promises less than it seems to:
//
//   - Fixed windows admit Limit at the end of one window and Limit again at the
//     beginning of the next, and all clients that were denied come back when the
//     window ends.
//   - Sliding windows take the events of the last window as spread evenly over it.
//     If they came late, a time d of at most Period sees up to Limit·(1 + d/Period)
//     events. If they came early, an event may be denied although the last Period
//     saw fewer than Limit. On Cloudflare's traffic, 0.003 % of 400 million decisions
//     were wrong ("How we built rate limiting capable of scaling to millions of
//     domains", 2017).
//   - A Limiter with a burst of Limit keeps the bound of sliding windows in half
//     the memory; with a smaller burst it keeps a better one.
//
// Windows is safe for concurrent use, and starts no goroutine.
//
//	lim, err := keyed.NewWindows[string](keyed.Window{Limit: 1000, Period: time.Hour}, keyed.Config{})
//	...
//	if d := lim.Take(user, 1); !d.OK { ... }
type Windows[K comparable] struct {
	windows *keyedtable.Windows[K]
	state[K]
	owner  weir.Owner // of the permits of Decide
	policy atomic.Pointer[Policy]
}

// NewWindows returns Windows that give every key the Window w. The error names the field
// of w or cfg that makes no sense.
func NewWindows[K comparable](w Window, cfg Config) (*Windows[K], error) {
	q, err := w.table()
	if err != nil {
		return nil, err
	}
	t, err := keyedtable.NewWindows[K](q, keyedtable.Config(cfg))
	if err != nil {
		return nil, err
	}
	l := &Windows[K]{windows: t, state: state[K]{t}, owner: windowOwner[K]{t}}
	l.policy.Store(w.policy())
	return l, nil
}

// Take counts n events of a key if they are within the limit, and says what is
// left and when to come back. If n exceeds the limit, RetryAfter is weir.Never.
// With n = 0 it counts nothing, and is allowed: Remaining and ResetAfter tell what the
// key has used. It panics if n < 0.
func (l *Windows[K]) Take(key K, n int) weir.Decision { return l.windows.Take(key, n, 0) }

// Decide is Take with the Policy of the Window, and with a Permit by which the cost is settled, as
// Settle does. It makes Windows a Decider. The error is nil.
func (l *Windows[K]) Decide(_ context.Context, key K, n int) (Verdict, error) {
	d, print, at := l.windows.Decide(key, n)
	if !d.OK {
		return Verdict{Decision: d, Policy: *l.policy.Load()}, nil
	}
	return Verdict{d, *l.policy.Load(), weir.OwnedPermit(&l.owner, weir.Grant{N: n, At: at, Note: print})}, nil
}

// windowOwner owns the permits of Decide.
type windowOwner[K comparable] struct{ *keyedtable.Windows[K] }

func (o windowOwner[K]) Use(g weir.Grant, n int) int { return o.Settle(g.Note, g.At, g.N, n) }

func (windowOwner[K]) Release(weir.Grant, weir.Outcome) {}

// Settle changes the cost of work of the key to n events; was is the number of events
// that Take counted for it, and at is the time when Take had returned. A later time
// than the present counts as the present. If n is less, the difference is given back to the
// window of that time, unless it has ended or, if windows slide, has faded out. If n is more,
// the difference is counted in the present window, beyond the limit by up to Config.MaxDebt; the
// rest is not charged. Settle returns the cost charged: less than n if some was not charged,
// more than n if some could not be given back. It panics if was or n is negative.
func (l *Windows[K]) Settle(key K, at time.Time, was, n int) int {
	return l.windows.SettleAt(key, at, was, n)
}

// SetWindow changes the Window. What a key has used stays used. If more than
// Limit changes, the events that count at that instant count under the new
// Window as if all had come at that instant. So a change gives no key more: from
// then on, the new Window's promise holds, with what had been used before as a
// beginning. Each shard is locked for as long as it takes to go through it: well
// under a millisecond. It panics if the Calendar is unknown.
func (l *Windows[K]) SetWindow(w Window) {
	q, err := w.table()
	if err != nil {
		panic(err.Error())
	}
	l.windows.SetWindow(q)
	l.policy.Store(w.policy())
}
