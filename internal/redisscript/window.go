package redisscript

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/window"
)

// A WindowKind says when windows begin, and what they count.
type WindowKind uint8

// The kinds of windows, by their numbers in the script.
const (
	FixedWindow   WindowKind = 1 + iota // begins with its first event
	ClockWindow                         // begins at a multiple of its period since 1970, and counts also events that it denies
	SlidingWindow                       // begins as a ClockWindow; the events of the window before fade out
)

// MaxEvents bounds the limit of a window.
const MaxEvents = 1<<42 - 1

// NewWindow returns the Quota of limit events in windows of a period. It is an error if the
// limit is not from 0 to MaxEvents, or the period not whole microseconds from a millisecond to
// 35 years.
func NewWindow(k WindowKind, limit int, period time.Duration) (Quota, error) {
	switch {
	case k < FixedWindow || k > SlidingWindow:
		return Quota{}, fmt.Errorf("a window of the unknown kind %d", k)
	case limit < 0 || limit > MaxEvents:
		return Quota{}, fmt.Errorf("a limit of %d: must be from 0 to %d", limit, MaxEvents)
	case period < time.Millisecond || period > maxUnits*time.Microsecond || period%time.Microsecond != 0:
		return Quota{}, fmt.Errorf("a period of %v: must be whole microseconds, at least 1 ms and at most 35 years", period)
	}
	return Quota{limit: int64(limit), kind: k, period: int64(period / time.Microsecond)}, nil
}

// events returns how many events a window may have after the Take.
func (q *Quota) events(t *Take) int64 {
	return q.limit + int64(min(max(t.Debt, 0), MaxEvents)-t.Spare)
}

// window returns a window as package window counts it, with another limit. The script has
// moved the count to the window of the present, so its Calendar does not matter.
func (r *Reply) window(i int, q *Quota, limit int64) (window.Quota, window.Count) {
	w := window.Quota{Limit: int(limit), Sliding: q.kind == SlidingWindow, Period: time.Duration(q.period) * time.Microsecond}
	at, last := time.Duration(r.windows[2*i])*time.Microsecond, int(r.windows[2*i+1])
	return w, window.Count{At: at, Last: last, Used: int(r.buckets[2*i])}
}

// windowDecision is Decision of a window.
func (r *Reply) windowDecision(i int, q *Quota, t *Take) weir.Decision {
	w, c := r.window(i, q, q.limit)
	_, d := w.Take(c, r.Time, 0)
	if q.kind == ClockWindow {
		d.ResetAfter = c.At - r.Time
	}
	if d.OK = !r.Denied(i, q, t); !d.OK {
		d.RetryAfter = r.windowUntil(i, q, t)
	}
	return d
}

// windowUntil is Until of a window. Package window grants a Take of nothing always, even in
// debt; one event more, under a limit that has one more, waits as long.
func (r *Reply) windowUntil(i int, q *Quota, t *Take) time.Duration {
	w, c := r.window(i, q, q.events(t)+1)
	_, d := w.Take(c, r.Time, min(max(t.Least, 0), math.MaxInt-1)+1)
	return d.RetryAfter
}

// windowUsed is Used of a window.
func (r *Reply) windowUsed(i int, q *Quota) int {
	const most = 2 * MaxEvents
	w, c := r.window(i, q, most)
	_, d := w.Take(c, r.Time, 0)
	return most - d.Remaining
}
