package window_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/window"
)

func TestSliding(t *testing.T) {
	const half = math.MaxInt64/2 + 1 // 1<<62
	for _, tt := range []struct {
		rule  string
		q     window.Quota
		steps []step
	}{
		{"the first window has Limit units", window.Quota{Sliding: true, Limit: 4, Period: 100}, []step{
			yes(10, 3, 1, 190), yes(90, 1, 0, 110), no(99, 1, 0, 26, 101),
		}},
		{"which fade out over the next", window.Quota{Sliding: true, Limit: 4, Period: 100}, []step{
			yes(99, 4, 0, 101), no(100, 1, 0, 25, 100), no(124, 1, 0, 1, 76), yes(125, 1, 0, 175), no(149, 1, 0, 1, 151),
			yes(150, 1, 0, 150), yes(199, 1, 0, 101), no(199, 1, 0, 1, 101),
		}},
		{"and are gone in the one after", window.Quota{Sliding: true, Limit: 4, Period: 100}, []step{
			yes(0, 4, 0, 200), yes(199, 0, 3, 1), yes(200, 0, 4, 0), yes(200, 4, 0, 200),
		}},
		{"whichever window that is", window.Quota{Sliding: true, Limit: 4, Period: 100}, []step{yes(0, 4, 0, 200), yes(1234, 4, 0, 166)}},
		{"what is left is rounded down", window.Quota{Sliding: true, Limit: 10, Period: 3}, []step{
			yes(0, 10, 0, 6), yes(3, 0, 0, 3), yes(4, 0, 3, 2), no(4, 4, 3, 1, 2), yes(4, 3, 0, 5),
		}},
		{"the wait ends where this window's estimate leaves room", window.Quota{Sliding: true, Limit: 10, Period: 1000}, []step{
			yes(0, 7, 3, 2000), yes(1000, 1, 2, 2000), no(1000, 3, 2, 143, 2000), no(1142, 3, 2, 1, 1858), yes(1143, 3, 0, 1857),
		}},
		{"or with its end", window.Quota{Sliding: true, Limit: 10, Period: 1000}, []step{
			yes(0, 10, 0, 2000), yes(1500, 5, 0, 1500), no(1500, 5, 0, 500, 1500), no(1999, 5, 4, 1, 1001), yes(2000, 5, 0, 2000),
		}},
		{"or where the next window's does", window.Quota{Sliding: true, Limit: 10, Period: 1000}, []step{
			yes(0, 8, 2, 2000), no(0, 4, 2, 1250, 2000), no(1249, 4, 3, 1, 751), yes(1250, 4, 0, 1750),
		}},
		{"or with that one's end", window.Quota{Sliding: true, Limit: 10, Period: 1000}, []step{
			yes(0, 8, 2, 2000), no(0, 10, 2, 2000, 2000), no(1999, 10, 9, 1, 1), yes(2000, 10, 0, 2000),
		}},
		{"units are taken together or not at all", window.Quota{Sliding: true, Limit: 3, Period: 10}, []step{yes(0, 2, 1, 20), no(1, 2, 1, 14, 19), yes(1, 1, 0, 19)}},
		{"more than Limit never fit", window.Quota{Sliding: true, Limit: 3, Period: 10}, []step{no(1, 4, 3, never, 0), yes(1, 1, 2, 19), no(1, 4, 2, never, 19)}},
		{"a look takes nothing", window.Quota{Sliding: true, Limit: 3, Period: 10}, []step{yes(1, 0, 3, 0), yes(1, 3, 0, 19), yes(2, 0, 0, 18), yes(20, 0, 3, 0)}},
		{"zero admits nothing", window.Quota{Sliding: true, Period: 10}, []step{no(1, 1, 0, never, 0), yes(1, 0, 0, 0)}},
		{"nor does less", window.Quota{Sliding: true, Limit: -5, Period: 10}, []step{no(1, 1, 0, never, 0), yes(1, 0, 0, 0)}},
		{"without a period the window is 292 years", window.Quota{Sliding: true, Limit: 3}, []step{
			yes(5, 2, 1, never), no(half, 2, 1, never, never), yes(math.MaxInt64-1, 1, 0, never), no(math.MaxInt64, 1, 0, never, never),
		}},
		{"nor with a negative one", window.Quota{Sliding: true, Limit: 3, Period: -10}, []step{yes(5, 3, 0, never), no(half, 2, 0, never, never)}},
		{"a refund gives back", window.Quota{Sliding: true, Limit: 3, Period: 10}, []step{yes(1, 3, 0, 19), refund(5, 2), yes(6, 1, 1, 14), yes(6, 1, 0, 14)}},
		{"not more than was used", window.Quota{Sliding: true, Limit: 3, Period: 10}, []step{yes(1, 1, 2, 19), refund(5, 9), yes(6, 0, 3, 0), yes(6, 3, 0, 14)}},
		{"and nothing to another window", window.Quota{Sliding: true, Limit: 4, Period: 10}, []step{
			yes(2, 2, 2, 18), yes(10, 1, 1, 20), refund(9, 2), refund(20, 2), yes(15, 0, 2, 15), refund(19, 2), yes(15, 0, 3, 5),
		}},
		{"time that goes backwards frees nothing", window.Quota{Sliding: true, Limit: 4, Period: 10}, []step{
			yes(9, 4, 0, 11), yes(15, 2, 0, 15), no(5, 1, 0, 13, 25), no(12, 1, 0, 6, 18), yes(10, 0, 0, 20),
		}},
		{"before the epoch it is the epoch", window.Quota{Sliding: true, Limit: 3, Period: 10}, []step{
			yes(-7, 3, 0, 27), no(-100, 1, 0, 114, 120), no(13, 1, 0, 1, 7), refund(-9, 1), yes(0, 1, 0, 20), yes(14, 1, 0, 16),
		}},
		{"and for refunds too", window.Quota{Sliding: true, Limit: 3, Period: 1}, []step{yes(-1, 3, 0, 3), refund(-1, 1), yes(0, 1, 0, 2)}},
		{"the end of time holds", window.Quota{Sliding: true, Limit: 3, Period: 10}, []step{
			yes(math.MaxInt64-9, 3, 0, never), no(math.MaxInt64, 3, 2, never, never), yes(math.MaxInt64, 2, 0, never),
		}},
		{"a wait too long to tell is never", window.Quota{Sliding: true, Limit: 4, Period: half}, []step{
			yes(1, 4, 0, never), no(1, 1, 0, half+half/4-1, never), no(half, 4, 0, never, never), no(-half, 1, 0, never, never),
			yes(half+half/2, 2, 0, never), no(half+half/2, 1, 0, half/4, never), no(half+half/2, 3, 0, never, never),
		}},
		{"limits are as large as an int", window.Quota{Sliding: true, Limit: math.MaxInt, Period: 10}, []step{
			yes(1, math.MaxInt-1, 1, 19), no(1, math.MaxInt, 1, 19, 19), yes(1, 1, 0, 19), no(1, 1, 0, 10, 19),
			yes(15, math.MaxInt/2, 0, 15), no(10, 1, 0, 6, 20), refund(10, math.MaxInt), yes(11, 0, math.MaxInt/10, 9),
		}},
		{"and units larger than limits", window.Quota{Sliding: true, Limit: 1, Period: 10}, []step{yes(1, 1, 0, 19), no(1, math.MaxInt, 0, never, 19)}},
		{"products have more than 64 bits", window.Quota{Sliding: true, Limit: math.MaxInt, Period: math.MaxInt64 / 3}, []step{
			yes(0, math.MaxInt, 0, math.MaxInt64/3*2), no(math.MaxInt64/3*2-1, math.MaxInt, math.MaxInt-4, 1, 1),
			yes(math.MaxInt64/3*2-1, math.MaxInt-4, 0, math.MaxInt64/3+1),
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) { run(t, tt.q, tt.steps) })
	}
}

// What was used stays used under another quota.
func TestSlidingChanges(t *testing.T) {
	// All that an int can hold, twice: the second late in its window.
	full := run(t, window.Quota{Sliding: true, Limit: math.MaxInt, Period: 100}, []step{
		yes(0, math.MaxInt, 0, 200), yes(199, math.MaxInt/100*98, 92233720368547764, 101),
	})
	for _, tt := range []struct {
		rule string
		q    window.Quota
		now  time.Duration
		want weir.Decision
	}{
		{"a smaller limit has nothing left", window.Quota{Sliding: true, Limit: 3, Period: 100}, 100,
			weir.Decision{RetryAfter: 200, ResetAfter: 200}},
		{"none has not either", window.Quota{Sliding: true, Period: 100}, 100,
			weir.Decision{RetryAfter: never, ResetAfter: 200}},
		{"the units count from where their window began", window.Quota{Sliding: true, Limit: 3, Period: 64}, 100,
			weir.Decision{RetryAfter: 92, ResetAfter: 92}},
		{"and fade over another period", window.Quota{Sliding: true, Limit: 3, Period: 64}, 128,
			weir.Decision{RetryAfter: 64, ResetAfter: 64}},
		{"and are gone after it", window.Quota{Sliding: true, Limit: 3, Period: 50}, 200,
			weir.Decision{OK: true, Remaining: 2, ResetAfter: 100}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if _, d := tt.q.Take(full, tt.now, 1); d != tt.want {
				t.Errorf("%+v: want %+v", d, tt.want)
			}
		})
	}
}

// slidingLog is a Sliding quota that remembers every grant, counts by
// fractions, and finds out how long to wait by waiting.
type slidingLog struct {
	q   window.Quota
	log []grant
}

// counts is the instant that now counts as.
func (l *slidingLog) counts(now time.Duration) time.Duration {
	if now < 0 {
		now = 0
	}
	if len(l.log) > 0 {
		now = max(now, l.log[len(l.log)-1].at/l.q.Period*l.q.Period)
	}
	return now
}

// estimate is the published formula.
func (l *slidingLog) estimate(now time.Duration) *big.Rat {
	now = l.counts(now)
	var previous, current int64
	for _, g := range l.log {
		switch now/l.q.Period - g.at/l.q.Period {
		case 0:
			current += int64(g.n)
		case 1:
			previous += int64(g.n)
		}
	}
	weight := big.NewRat(1, 1)
	weight.Sub(weight, big.NewRat(int64(now%l.q.Period), int64(l.q.Period)))
	sum := weight.Mul(weight, big.NewRat(previous, 1))
	return sum.Add(sum, big.NewRat(current, 1))
}

func (l *slidingLog) fits(now time.Duration, n int) bool {
	sum := l.estimate(now)
	return sum.Add(sum, big.NewRat(int64(n), 1)).Cmp(big.NewRat(int64(l.q.Limit), 1)) <= 0
}

func (l *slidingLog) take(now time.Duration, n int) (d weir.Decision) {
	switch {
	case n == 0 || l.fits(now, n):
		d.OK = true
		if n > 0 {
			l.log = append(l.log, grant{l.counts(now), n})
		}
	case n > l.q.Limit:
		d.RetryAfter = never
	default:
		for !l.fits(now+d.RetryAfter, n) {
			d.RetryAfter++
		}
	}
	for l.fits(now, d.Remaining+1) {
		d.Remaining++
	}
	for l.estimate(now+d.ResetAfter).Sign() > 0 {
		d.ResetAfter++
	}
	return d
}

// refund takes units out of the log again, the grants staying where they are.
func (l *slidingLog) refund(now time.Duration, n int) {
	for i := range l.log {
		if g := &l.log[i]; g.at/l.q.Period == max(now, 0)/l.q.Period && g.at/l.q.Period == l.counts(0)/l.q.Period {
			back := min(n, g.n)
			g.n, n = g.n-back, n-back
		}
	}
}

func (l *slidingLog) charge(now time.Duration, n, maxDebt int) (took int) {
	indebted := *l
	indebted.q.Limit += maxDebt
	for took < n && indebted.fits(now, 1) {
		indebted.log = append(indebted.log, grant{l.counts(now), 1})
		took++
	}
	l.log = indebted.log
	return took
}

// check fails if a stretch of up to a period saw more than limit·(1 + d/period).
func (l *slidingLog) check(t *testing.T, limit int) {
	for _, a := range l.log {
		for _, b := range l.log {
			d := b.at - a.at
			if d < 0 || d > l.q.Period {
				continue
			}
			seen := 0
			for _, g := range l.log {
				if a.at <= g.at && g.at <= b.at {
					seen += g.n
				}
			}
			if int64(seen)*int64(l.q.Period) > int64(limit)*int64(l.q.Period+d) {
				t.Fatalf("%d units from %d to %d", seen, a.at, b.at)
			}
		}
	}
}

// Each event does what it does to the oracle, and a refund undoes a take.
func FuzzSliding(f *testing.F) {
	f.Add([]byte("take, look, refund"), uint8(5), uint8(10))
	for seed := range uint64(50) { // so that each run of the tests is a little fuzzing
		f.Add(events(seed, 100), uint8(seed), uint8(seed*7))
	}
	f.Fuzz(func(t *testing.T, events []byte, limit, period uint8) {
		q := window.Quota{Sliding: true, Limit: int(limit % 17), Period: 1 + time.Duration(period%32)}
		oracle := slidingLog{q: q}
		var c window.Count
		var now time.Duration
		debt := 0 // the most that was allowed
		for events = events[:min(len(events), 200)]; len(events) >= 2; events = events[2:] {
			now += time.Duration(events[0]%32) - 6
			n := int(events[1] % 8)
			switch events[0] >> 5 {
			case 0:
				c = q.Refund(c, now, n)
				oracle.refund(now, n)
				continue
			case 1:
				maxDebt := int(events[1] >> 3 % 8)
				debt = max(debt, maxDebt)
				c = charge(t, q, c, &oracle, now, n, maxDebt)
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
			undo(t, q, c, now, n)
		}
		oracle.check(t, q.Limit+debt)
	})
}

// Of any size: the formula holds, and the wait is the shortest.
func FuzzSlidingExtremes(f *testing.F) {
	f.Add(math.MaxInt, int64(math.MaxInt64), math.MaxInt, int64(0), math.MaxInt, int64(math.MaxInt64), 1, int64(-1))
	f.Add(math.MaxInt, int64(1<<61), math.MaxInt, int64(1), math.MaxInt/3, int64(1<<61+1<<60), math.MaxInt/2, int64(1<<61+1<<60))
	f.Add(math.MaxInt, int64(3), math.MaxInt-1, int64(1<<62), math.MaxInt/3, int64(1<<62+2), math.MaxInt, int64(1<<62+3))
	f.Add(7, int64(1e9+7), 3, int64(1), 4, int64(1e9+8), 5, int64(15e8))
	f.Add(1000, int64(86400e9), 999, int64(86399e9), 500, int64(2*86400e9-1), 700, int64(86401e9))
	f.Fuzz(func(t *testing.T, limit int, period int64, n1 int, t1 int64, n2 int, t2 int64, n int, at int64) {
		q := window.Quota{Sliding: true, Limit: limit & math.MaxInt, Period: 1 + time.Duration(period&(math.MaxInt64-1))}
		oracle, now := slidingLog{q: q}, time.Duration(at)
		var c window.Count
		for _, g := range []grant{{time.Duration(t1), n1 & math.MaxInt}, {time.Duration(t2), n2 & math.MaxInt}} {
			fits, at := oracle.fits(g.at, g.n), oracle.counts(g.at)
			var d weir.Decision
			if c, d = q.Take(c, g.at, g.n); d.OK != fits && g.n > 0 {
				t.Fatalf("%+v: %+v: want %v", g, d, fits)
			}
			if d.OK && g.n > 0 {
				oracle.log = append(oracle.log, grant{at, g.n})
			}
		}
		n &= math.MaxInt
		was := c
		c, d := q.Take(was, now, n)
		if fits := n == 0 || oracle.fits(now, n); d.OK != fits {
			t.Fatalf("%d at %d of %+v: %+v: want %v", n, now, was, d, fits)
		}
		if d.OK && n > 0 {
			oracle.log = append(oracle.log, grant{oracle.counts(now), n})
		}
		if d.Remaining > 0 && !oracle.fits(now, d.Remaining) || d.Remaining < q.Limit && oracle.fits(now, d.Remaining+1) {
			t.Fatalf("%d at %d of %+v: %+v", n, now, was, d)
		}
		switch end := now + d.RetryAfter; {
		case d.OK || n > q.Limit:
		case d.RetryAfter == never: // not before the end of time
			if _, d := q.Take(c, never-1, n); d.OK && now >= 0 {
				t.Fatalf("%d of %+v: never at %d, and at last: %+v", n, c, now, d)
			}
		case end > now:
			checkRetry(t, q, c, now, n, d.RetryAfter)
		}
	})
}
