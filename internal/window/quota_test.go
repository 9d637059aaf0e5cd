package window_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/window"
)

// A step takes n units at now, or gives -n back.
type step struct {
	now, n int
	want   weir.Decision // of a take
}

// yes, no and refund are steps.
func yes(now, n, remaining int, reset time.Duration) step {
	return step{now, n, weir.Decision{OK: true, Remaining: remaining, ResetAfter: reset}}
}

func no(now, n, remaining int, retry, reset time.Duration) step {
	return step{now, n, weir.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset}}
}

func refund(now, n int) step { return step{now: now, n: -n} }

func run(t *testing.T, q window.Quota, steps []step) (s window.Count) {
	t.Helper()
	for i, step := range steps {
		now := time.Duration(step.now)
		if step.n < 0 {
			s = q.Refund(s, now, -step.n)
			continue
		}
		was := s
		var d weir.Decision
		if s, d = q.Take(s, now, step.n); d != step.want {
			t.Errorf("step %d, %d at %d: %+v: want %+v", i, step.n, now, d, step.want)
		}
		if (!d.OK || step.n == 0) && s != was {
			t.Errorf("step %d, %d at %d: the state went from %+v to %+v", i, step.n, now, was, s)
		}
	}
	return s
}

func TestFixed(t *testing.T) {
	every := func(limit int, period, offset time.Duration) window.Quota {
		return window.Quota{Limit: limit, Calendar: window.Every(period, offset)}
	}
	for _, tt := range []struct {
		rule  string
		q     window.Quota
		steps []step
	}{
		{"a window has Limit units", every(3, 10, 0), []step{
			yes(2, 1, 2, 8), yes(3, 1, 1, 7), yes(3, 1, 0, 7), no(4, 1, 0, 6, 6),
		}},
		{"and so has the next", every(3, 10, 0), []step{yes(2, 3, 0, 8), no(9, 1, 0, 1, 1), yes(10, 3, 0, 10)}},
		{"twice the limit around its end", every(3, 10, 0), []step{yes(9, 3, 0, 1), yes(10, 3, 0, 10)}},
		{"unused windows add nothing", every(3, 10, 0), []step{no(95, 4, 3, never, 0), yes(95, 3, 0, 5)}},
		{"windows are those of the calendar", every(3, 10, 4), []step{yes(3, 3, 0, 1), yes(4, 3, 0, 10), no(13, 1, 0, 1, 1)}},
		{"units are taken together or not at all", every(3, 10, 0), []step{yes(0, 2, 1, 10), no(1, 2, 1, 9, 9), yes(1, 1, 0, 9)}},
		{"more than Limit never fit", every(3, 10, 0), []step{no(1, 4, 3, never, 0), yes(1, 1, 2, 9), no(1, 4, 2, never, 9)}},
		{"a look takes nothing", every(3, 10, 0), []step{yes(1, 0, 3, 0), yes(1, 3, 0, 9), yes(2, 0, 0, 8), yes(10, 0, 3, 0)}},
		{"zero admits nothing", every(0, 10, 0), []step{no(1, 1, 0, never, 0), yes(1, 0, 0, 0)}},
		{"nor does less", every(-5, 10, 0), []step{no(1, 1, 0, never, 0), yes(1, 0, 0, 0)}},
		{"without a calendar the limit is for ever", window.Quota{Limit: 3}, []step{
			yes(5, 2, 1, never), no(1<<62, 2, 1, never, never), yes(math.MaxInt64, 1, 0, never), no(math.MaxInt64, 1, 0, never, never),
		}},
		{"a refund gives back", every(3, 10, 0), []step{yes(1, 3, 0, 9), refund(5, 2), yes(6, 1, 1, 4), yes(6, 1, 0, 4)}},
		{"not more than was used", every(3, 10, 0), []step{yes(1, 1, 2, 9), refund(5, 9), yes(6, 0, 3, 0), yes(6, 3, 0, 4)}},
		{"and nothing to another window", every(3, 10, 0), []step{
			yes(12, 2, 1, 8), refund(20, 1), refund(9, 1), yes(13, 0, 1, 7), refund(10, 1), yes(13, 0, 2, 7),
		}},
		{"time that goes backwards frees nothing", every(3, 10, 0), []step{
			yes(9, 3, 0, 1), yes(10, 2, 1, 10), no(5, 2, 1, 15, 15), yes(5, 1, 0, 15), no(0, 1, 0, 20, 20),
		}},
		{"not even for what was given back", every(3, 10, 0), []step{
			yes(9, 3, 0, 1), yes(10, 2, 1, 10), refund(10, 2), yes(5, 3, 0, 15), no(9, 1, 0, 11, 11),
		}},
		{"before the epoch it is the epoch", every(3, 10, 5), []step{
			yes(-7, 3, 0, 12), no(-100, 1, 0, 105, 105), no(4, 1, 0, 1, 1), refund(-9, 1), yes(4, 1, 0, 1), yes(5, 1, 2, 10),
		}},
		{"and for refunds too", every(3, 1, 0), []step{yes(-1, 3, 0, 2), refund(-1, 1), yes(0, 1, 0, 1)}},
		{"the last window never ends", every(3, 10, 0), []step{
			yes(math.MaxInt64-9, 1, 2, 2), yes(math.MaxInt64-7, 3, 0, never), no(math.MaxInt64, 1, 0, never, never),
		}},
		{"a wait too long to tell is never", every(3, math.MaxInt64-1, 0), []step{
			yes(0, 3, 0, never-1), no(-1, 1, 0, never, never), no(math.MinInt64, 1, 0, never, never),
		}},
		{"limits are as large as an int", every(math.MaxInt, 10, 0), []step{
			yes(1, math.MaxInt-1, 1, 9), no(1, math.MaxInt, 1, 9, 9), yes(1, 1, 0, 9), no(1, 1, 0, 9, 9), refund(1, math.MaxInt), yes(1, 0, math.MaxInt, 0),
		}},
		{"and units larger than limits", every(1, 10, 0), []step{yes(1, 1, 0, 9), no(1, math.MaxInt, 0, never, 9)}},
	} {
		t.Run(tt.rule, func(t *testing.T) { run(t, tt.q, tt.steps) })
	}
}

// What was used stays used under another quota.
func TestFixedChanges(t *testing.T) {
	minute, day := window.Every(time.Minute, 0), window.Every(24*time.Hour, 0)
	c := run(t, window.Quota{Limit: math.MaxInt, Calendar: minute}, []step{yes(0, math.MaxInt, 0, time.Minute)})
	for _, tt := range []struct {
		rule string
		q    window.Quota
		now  time.Duration
		want weir.Decision
	}{
		{"a smaller limit has nothing left", window.Quota{Limit: 3, Calendar: minute}, 0,
			weir.Decision{RetryAfter: time.Minute, ResetAfter: time.Minute}},
		{"none has not either", window.Quota{Calendar: minute}, 0,
			weir.Decision{RetryAfter: never, ResetAfter: time.Minute}},
		{"the window goes on under another calendar", window.Quota{Limit: 3, Calendar: day}, time.Minute - 1,
			weir.Decision{RetryAfter: 1, ResetAfter: 1}},
		{"until it ends", window.Quota{Limit: 3, Calendar: day}, time.Minute,
			weir.Decision{OK: true, Remaining: 2, ResetAfter: 24*time.Hour - time.Minute}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if _, d := tt.q.Take(c, tt.now, 1); d != tt.want {
				t.Errorf("%+v: want %+v", d, tt.want)
			}
		})
	}
}

// A charge of more than is left leaves nothing.
func TestCharge(t *testing.T) {
	f := window.Quota{Limit: 5, Calendar: window.Every(10, 0)}
	s := window.Quota{Sliding: true, Limit: 5, Period: 10}
	const most = math.MaxInt
	for _, tt := range []struct {
		rule              string
		limit             int
		n, maxDebt, wants int
		fixed, sliding    weir.Decision // of one more unit, at 2
	}{
		{"what is left is enough", 5, 2, 9, 2, weir.Decision{OK: true, ResetAfter: 8}, weir.Decision{OK: true, ResetAfter: 18}},
		{"or just enough", 5, 3, 0, 3, weir.Decision{RetryAfter: 8, ResetAfter: 8}, weir.Decision{RetryAfter: 10, ResetAfter: 18}},
		{"debt is denied until the window ends, or has faded", 5, 7, 4, 7,
			weir.Decision{RetryAfter: 8, ResetAfter: 8}, weir.Decision{RetryAfter: 14, ResetAfter: 18}},
		{"and goes no further than allowed", 5, 8, 4, 7,
			weir.Decision{RetryAfter: 8, ResetAfter: 8}, weir.Decision{RetryAfter: 14, ResetAfter: 18}},
		{"there need not be any", 5, 8, 0, 3, weir.Decision{RetryAfter: 8, ResetAfter: 8}, weir.Decision{RetryAfter: 10, ResetAfter: 18}},
		{"less than none is none", 5, 8, -1, 3, weir.Decision{RetryAfter: 8, ResetAfter: 8}, weir.Decision{RetryAfter: 10, ResetAfter: 18}},
		{"nothing is nothing", 5, 0, 9, 0, weir.Decision{OK: true, Remaining: 2, ResetAfter: 8}, weir.Decision{OK: true, Remaining: 2, ResetAfter: 18}},
		{"under no limit there is debt only", -3, 9, 4, 2, weir.Decision{RetryAfter: never, ResetAfter: 8}, weir.Decision{RetryAfter: never, ResetAfter: 18}},
		{"all that an int can hold", most, most, most, most - 2, weir.Decision{RetryAfter: 8, ResetAfter: 8}, weir.Decision{RetryAfter: 9, ResetAfter: 18}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c, _ := f.Take(window.Count{}, 1, 2)
			cs, _ := s.Take(window.Count{}, 1, 2)
			f, s := f, s
			f.Limit, s.Limit = tt.limit, tt.limit
			c, took := f.Charge(c, 2, tt.n, tt.maxDebt)
			if _, d := f.Take(c, 2, 1); took != tt.wants || d != tt.fixed {
				t.Errorf("Fixed took %d: %+v: want %d, %+v", took, d, tt.wants, tt.fixed)
			}
			cs, took = s.Charge(cs, 2, tt.n, tt.maxDebt)
			if _, d := s.Take(cs, 2, 1); took != tt.wants || d != tt.sliding {
				t.Errorf("Sliding took %d: %+v: want %d, %+v", took, d, tt.wants, tt.sliding)
			}
		})
	}
}

func TestNegativeCost(t *testing.T) {
	f, s := window.Quota{Limit: 1}, window.Quota{Sliding: true, Limit: 1}
	for _, do := range []func(){
		func() { f.Take(window.Count{}, 0, -1) },
		func() { s.Take(window.Count{}, 0, math.MinInt) },
		func() { f.Refund(window.Count{}, 0, math.MinInt) },
		func() { s.Refund(window.Count{}, 0, -1) },
		func() { f.Charge(window.Count{}, 0, -1, 0) },
		func() { s.Charge(window.Count{}, 0, math.MinInt, 0) },
	} {
		func() {
			defer func() {
				if p := recover(); p != "window: negative cost" {
					t.Errorf("panic %v", p)
				}
			}()
			do()
		}()
	}
}

func TestNoAllocations(t *testing.T) {
	f := window.Quota{Limit: 1, Calendar: window.Dates(window.Month, epoch, zone(t, "America/New_York"))}
	s := window.Quota{Sliding: true, Limit: 1, Period: time.Hour}
	var c window.Count
	var cs window.Count
	var now time.Duration
	if n := testing.AllocsPerRun(100, func() {
		now += 45 * time.Minute
		c, _ = f.Take(c, now, 1)
		cs, _ = s.Take(cs, now, 1)
		c = f.Refund(c, now, 1)
		c, _ = f.Charge(c, now, 1, 1)
		cs, _ = s.Charge(cs, now, 1, 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A grant is a take that was allowed, in the log of an oracle, at the instant
// that it counted as.
type grant struct {
	at time.Duration
	n  int
}

// fixedLog is a Fixed quota that remembers every grant.
type fixedLog struct {
	q   window.Quota
	log []grant
}

// counts is the instant that now counts as.
func (l *fixedLog) counts(now time.Duration) time.Duration {
	now = max(now, 0)
	if len(l.log) > 0 {
		start, _ := l.q.Calendar.At(l.log[len(l.log)-1].at)
		now = max(now, start)
	}
	return now
}

func (l *fixedLog) used(now time.Duration) (used int) {
	start, end := l.q.Calendar.At(now)
	for _, g := range l.log {
		if start <= g.at && g.at < end {
			used += g.n
		}
	}
	return used
}

func (l *fixedLog) take(now time.Duration, n int) (d weir.Decision) {
	at := l.counts(now)
	used := l.used(at)
	_, end := l.q.Calendar.At(at)
	switch {
	case n == 0 || n+used <= l.q.Limit:
		d.OK = true
		if n > 0 {
			l.log = append(l.log, grant{at, n})
		}
		used += n
	case n > l.q.Limit:
		d.RetryAfter = never
	default:
		d.RetryAfter = end - now
	}
	d.Remaining = max(l.q.Limit-used, 0)
	if used > 0 {
		d.ResetAfter = end - now
	}
	return d
}

func (l *fixedLog) charge(now time.Duration, n, maxDebt int) (took int) {
	at := l.counts(now)
	for took < n && l.used(at) < l.q.Limit+maxDebt {
		l.log = append(l.log, grant{at, 1})
		took++
	}
	return took
}

// refund takes units out of the log again, the grants staying where they are.
func (l *fixedLog) refund(now time.Duration, n int) {
	if start, end := l.q.Calendar.At(max(now, 0)); l.counts(now) < start || l.counts(now) >= end {
		return
	}
	start, _ := l.q.Calendar.At(max(now, 0))
	for i := range l.log {
		if g := &l.log[i]; g.at >= start {
			back := min(n, g.n)
			g.n, n = g.n-back, n-back
		}
	}
}

// events makes up n of them for the seed of a corpus.
func events(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	events := make([]byte, n)
	for i := range events {
		events[i] = byte(rng.Uint32())
	}
	return events
}

// Each event does what it does to the oracle, and a refund undoes a take.
func FuzzFixed(f *testing.F) {
	f.Add([]byte("take, look, refund"), uint8(5), uint8(10), uint8(3))
	for seed := range uint64(50) { // so that each run of the tests is a little fuzzing
		f.Add(events(seed, 400), uint8(seed), uint8(seed*7), uint8(seed*11))
	}
	loc := zone(f, "America/St_Johns")
	f.Fuzz(func(t *testing.T, events []byte, limit, period, offset uint8) {
		q := window.Quota{Limit: int(limit % 9), Calendar: window.Every(1+time.Duration(period%32), time.Duration(offset%32)-16)}
		if period >= 128 { // as ragged as calendars are
			q.Calendar = window.Dates(window.Day, epoch, loc)
		}
		oracle := fixedLog{q: q}
		var c window.Count
		var now time.Duration
		for events = events[:min(len(events), 400)]; len(events) >= 2; events = events[2:] {
			step, n := time.Duration(events[0]%32)-6, int(events[1]%8)
			if period >= 128 {
				step *= time.Hour
			}
			now += step
			switch events[0] >> 5 {
			case 0:
				c = q.Refund(c, now, n)
				oracle.refund(now, n)
				continue
			case 1:
				c = charge(t, q, c, &oracle, now, n, int(events[1]>>3%8))
				continue
			}
			was := c
			got, want := weir.Decision{}, oracle.take(now, n)
			if c, got = q.Take(c, now, n); got != want {
				t.Fatalf("%d at %d of %+v: %+v: want %+v", n, now, was, got, want)
			}
			if !got.OK && c != was {
				t.Fatalf("%d at %d: denied, and %+v became %+v", n, now, was, c)
			}
			if !got.OK && got.RetryAfter < never {
				checkRetry(t, q, c, now, n, got.RetryAfter)
			}
			undo(t, q, c, now, n)
		}
	})
}

// charge charges n units, and fails unless the oracle takes as many.
func charge(t *testing.T, q window.Quota, s window.Count, oracle interface {
	charge(now time.Duration, n, maxDebt int) int
}, now time.Duration, n, maxDebt int) window.Count {
	t.Helper()
	want := oracle.charge(now, n, maxDebt)
	after, got := q.Charge(s, now, n, maxDebt)
	if got != want {
		t.Fatalf("%d charged at %d of %+v, debt up to %d: %d: want %d", n, now, s, maxDebt, got, want)
	}
	return after
}

// checkRetry fails unless n units are allowed after the wait and not before.
func checkRetry(t *testing.T, q window.Quota, s window.Count, now time.Duration, n int, wait time.Duration) {
	t.Helper()
	if _, d := q.Take(s, now+wait, n); !d.OK {
		t.Fatalf("%d at %d, after %d, of %+v: %+v", n, now, wait, s, d)
	}
	if _, d := q.Take(s, now+wait-1, n); d.OK || d.RetryAfter != 1 {
		t.Fatalf("%d at %d, before %d, of %+v: %+v", n, now, wait, s, d)
	}
}

// undo fails unless a refund after a take leads back to the same state. What
// counts as another instant than it was is not given back.
func undo(t *testing.T, q window.Quota, s window.Count, now time.Duration, n int) {
	t.Helper()
	s, d := q.Take(s, now, 1)
	if !d.OK || q.Refund(s, now, 1) == s {
		return
	}
	if after, d := q.Take(s, now, n); d.OK && q.Refund(after, now, n) != s {
		t.Fatalf("%d at %d of %+v: taken, %+v; given back, %+v", n, now, s, after, q.Refund(after, now, n))
	}
}
