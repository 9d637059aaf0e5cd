package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	xrate "golang.org/x/time/rate"
)

// naive is a token bucket as one writes it down first: tokens, and since when.
type naive struct {
	perNs, burst, tokens float64
	last                 time.Duration
}

// reserve takes n tokens and returns how long it takes until they are there.
func (m *naive) reserve(now time.Duration, n int) (time.Duration, bool) {
	if float64(n) > m.burst {
		return weir.Never, false
	}
	m.tokens = min(m.burst, m.tokens+float64(now-m.last)*m.perNs)
	m.last = now
	m.tokens -= float64(n)
	return time.Duration(math.Ceil(max(0, -m.tokens/m.perNs))), true
}

func (m *naive) refund(n int) { m.tokens += float64(n) }

// A trio is the same bucket three times.
type trio struct {
	t     *testing.T
	quota gcra.Quota
	weir  gcra.Bucket
	naive naive
	xtime *xrate.Limiter

	now   time.Duration
	span  time.Duration // no wait is longer
	ops   int           // since all were full, and so equal
	drift float64       // nanoseconds by which an operation may set floats apart
	worst float64       // the largest difference seen, in tolerances
}

// newTrio starts full, at now. An operation with floats rounds about four
// times, each time by half of the last bit of a number below the span.
func newTrio(t *testing.T, count int, period time.Duration, burst int, now time.Duration) *trio {
	t.Helper()
	tr := &trio{
		t:     t,
		quota: gcra.Per(count, period, burst),
		naive: naive{perNs: float64(count) / float64(period), burst: float64(burst), tokens: float64(burst)},
		xtime: xrate.NewLimiter(xrate.Limit(float64(count)/period.Seconds()), burst),
		now:   now,
		span:  time.Duration(float64(3*burst+10) * float64(period) / float64(count)),
	}
	if tr.drift = float64(tr.span) * 0x1p-51; tr.drift > 1 {
		t.Fatalf("floats are %v ns apart at each operation: choose a smaller burst", tr.drift)
	}
	return tr
}

// tolerance is 2 ns, since weir rounds up to a nanosecond and the others round
// down or up, and what has accumulated: 1 ns an operation at most.
func (tr *trio) tolerance() time.Duration {
	return 2 + time.Duration(float64(tr.ops+1)*tr.drift)
}

// at is the instant for x/time.
func (tr *trio) at() time.Time { return time.Unix(0, int64(tr.now)) }

// reserve reserves n tokens of each, compares the waits, and returns the
// longest, and how to cancel at a later instant. Only the last reservation can
// be cancelled: for others x/time has a rule, which is package rate's affair.
func (tr *trio) reserve(n int) (wait time.Duration, ok bool, cancel func()) {
	tr.t.Helper()
	tr.ops++
	b, w1, ok1 := tr.quota.Reserve(tr.weir, tr.now, n, weir.Never-1)
	w2, ok2 := tr.naive.reserve(tr.now, n)
	r := tr.xtime.ReserveN(tr.at(), n)
	w3, ok3 := r.DelayFrom(tr.at()), r.OK()
	if ok1 != ok2 || ok1 != ok3 {
		tr.t.Fatalf("%v: reserve %d: weir %v, naive %v, x/time %v", tr, n, ok1, ok2, ok3)
	}
	if !ok1 {
		return weir.Never, false, nil
	}
	tr.weir = b
	wait = max(w1, w2, w3)
	apart, tolerance := wait-min(w1, w2, w3), tr.tolerance()
	if apart > tolerance {
		tr.t.Fatalf("%v: reserve %d: weir waits %d ns, naive %d, x/time %d: more than %d apart",
			tr, n, w1, w2, w3, tolerance)
	}
	tr.worst = max(tr.worst, float64(apart)/float64(tolerance))
	return wait, true, func() {
		tr.ops++
		tr.weir = tr.quota.Refund(tr.weir, n)
		tr.naive.refund(n)
		r.CancelAt(tr.at())
	}
}

// take takes n tokens of each, or of none. Where the verdicts differ, the wait
// must be within the tolerance; then all follow x/time.
func (tr *trio) take(n int) (retry time.Duration, differ bool) {
	tr.t.Helper()
	wait, ok, cancel := tr.reserve(n)
	if ok {
		cancel()
	}
	tr.ops++
	b, d := tr.quota.Take(tr.weir, tr.now, n)
	m := tr.naive
	w2, ok2 := m.reserve(tr.now, n)
	ok2 = ok2 && w2 == 0
	ok3 := tr.xtime.AllowN(tr.at(), n)
	differ = d.OK != ok2 || d.OK != ok3
	if differ && (!ok || wait > tr.tolerance()) {
		tr.t.Fatalf("%v: take %d: weir %v, naive %v, x/time %v, with %v to wait", tr, n, d.OK, ok2, ok3, wait)
	}
	_, w1, _ := tr.quota.Reserve(tr.weir, tr.now, n, weir.Never-1)
	if d.OK != (w1 == 0) || !d.OK && d.RetryAfter != w1 {
		tr.t.Fatalf("%v: take %d: %+v, but to reserve takes %d ns", tr, n, d, w1)
	}
	if ok3 {
		if !d.OK {
			b, _, _ = tr.quota.Reserve(tr.weir, tr.now, n, weir.Never-1)
		}
		tr.weir, tr.naive = b, m
	}
	if d.OK || n > tr.quota.Burst() {
		return 0, differ
	}
	return d.RetryAfter, differ
}

func (tr *trio) String() string {
	return fmt.Sprintf("at %d, operation %d since full", tr.now, tr.ops)
}

// A tally counts what happened, so that the test knows that it tested.
type tally struct{ kept, cancelled, cancelledLater, allowed, denied, differ int }

// play runs ops random operations. The bucket is in debt during most of them.
func (tr *trio) play(r *rand.Rand, ops int, c *tally) {
	tr.t.Helper()
	interval := max(1, int64(1e9/tr.quota.Rate()))
	retry := time.Duration(0)
	for range ops {
		switch x := r.IntN(5000); {
		case x == 0: // all are full again
			tr.now += tr.span + time.Duration(interval)
			tr.ops = 0
		case x < 500:
		case x < 1000: // at the very boundary, and a nanosecond beside it
			tr.now += max(0, retry+time.Duration(r.IntN(3)-1))
		default:
			tr.now += time.Duration(r.Int64N(interval + 1))
		}
		n := 1
		if r.IntN(4) == 0 {
			n = r.IntN(tr.quota.Burst() + 2) // 0, and more than the burst
		}
		if r.IntN(2) == 0 {
			var differ bool
			if retry, differ = tr.take(n); differ {
				c.differ++
			}
			if retry > 0 {
				c.denied++
			} else {
				c.allowed++
			}
			continue
		}
		wait, ok, cancel := tr.reserve(n)
		switch retry = 0; {
		case !ok:
		case wait > tr.span/2, r.IntN(3) == 0:
			cancel()
			c.cancelled++
		case wait > 1 && r.IntN(2) == 0:
			tr.now += time.Duration(r.Int64N(int64(wait) / 2))
			cancel()
			c.cancelledLater++
		default:
			c.kept++
		}
	}
}

// The same random trace through weir's core, a naive bucket of floats, and
// x/time: all must compute the same waits, and say the same.
func TestDifferential(t *testing.T) {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	const latest, episode = 120 * year, 5000
	for i, tt := range []struct {
		count  int
		period time.Duration
		bursts []int
	}{
		{1, day, []int{1, 2, 3, 4, 5}},
		{1, time.Hour, []int{1, 5, 24, 100}},
		{1, time.Minute, []int{1, 5, 60, 1000}},
		{7, time.Second, []int{1, 7, 100, 10_000}},
		{425, time.Second, []int{1, 100, 425, 10_000}},
		{1e6, time.Second, []int{1, 10, 1000, 1e6}},
		{1e8, time.Second, []int{1, 10, 1000, 1e6}},
	} {
		t.Run(fmt.Sprintf("%d per %v", tt.count, tt.period), func(t *testing.T) {
			t.Parallel()
			var c tally
			worst := 0.0
			for _, burst := range tt.bursts {
				for e := range traceLen / len(tt.bursts) / episode {
					r := rand.New(rand.NewPCG(uint64(i), uint64(burst*1e6+e)))
					tr := newTrio(t, tt.count, tt.period, burst, time.Duration(r.Int64N(int64(56*year))))
					tr.play(r, episode, &c)
					if tr.now > latest {
						t.Fatalf("burst %d: now is %v: choose a shorter episode", burst, tr.now)
					}
					worst = max(worst, tr.worst)
				}
			}
			t.Logf("%+v, the worst difference %.2f of its tolerance", c, worst)
			for what, n := range map[string]int{"kept": c.kept, "cancelled": c.cancelled,
				"cancelled later": c.cancelledLater, "allowed": c.allowed, "denied": c.denied} {
				if n < traceLen/100 {
					t.Errorf("only %d of %d operations were %s", n, traceLen, what)
				}
			}
		})
	}
}
