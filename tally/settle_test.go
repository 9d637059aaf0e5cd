package tally_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/tally"
	"github.com/weir-go/weir/window"
)

func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		rule        string
		maxDebt     int
		after       time.Duration // that 4 of 10 were taken
		was, n      int
		want        int // charged
		left, slide int // if windows are fixed, and if they slide
	}{
		{"less comes back", 0, 0, 4, 1, 1, 9, 9},
		{"nothing at all", 0, 0, 4, 0, 0, 10, 10},
		{"not more than there was", 0, 0, 7, 0, 3, 10, 10},
		{"until the window ends", 0, time.Second - 1, 4, 1, 1, 9, 9},
		{"and then it is too late", 0, time.Second, 4, 1, 4, 10, 6},
		{"or has faded", 0, 2 * time.Second, 4, 1, 4, 10, 10},
		{"more is counted", 0, 0, 4, 9, 9, 1, 1},
		{"in the present window", 0, time.Second, 4, 9, 9, 5, 1},
		{"beyond the limit, by as much", 0, 0, 4, 60, 20, 0, 0},
		{"or by as much as allowed", 3, 0, 4, 60, 13, 0, 0},
		{"or not", -1, 0, 4, 60, 10, 0, 0},
		{"however much it is", math.MaxInt, 0, 4, math.MaxInt, tally.MaxLimit, 0, 0},
	} {
		for slides, left := range map[bool]int{false: tt.left, true: tt.slide} {
			t.Run(fmt.Sprintf("%s, sliding %v", tt.rule, slides), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := tally.Quota{Limit: 10, Period: time.Second, Sliding: slides}
					l := newLimiter(t, q, tally.Config{MaxDebt: tt.maxDebt})
					l.Take("a", 4, 0)
					at := time.Now()
					time.Sleep(tt.after)
					if got := l.SettleAt("a", at, tt.was, tt.n); got != tt.want {
						t.Errorf("%d are charged: want %d", got, tt.want)
					}
					if d := l.Take("a", 0, 0); d.Remaining != left {
						t.Errorf("%d are left: want %d", d.Remaining, left)
					}
					if d := l.Take("b", 0, 0); d.Remaining != 10 {
						t.Errorf("another key: %+v", d)
					}
				})
			})
		}
	}
}

// A refund of a past window gives nothing to the present one, not even if that
// has begun.
func TestSettlePastWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, q := range []tally.Quota{perSecond(10), sliding(perSecond(10))} {
			l := newLimiter(t, q, tally.Config{})
			l.Take("a", 4, 0)
			past := time.Now()
			time.Sleep(1500 * ms)
			l.Take("a", 3, 0)
			before, _ := l.Used("a")
			for _, at := range []time.Time{past, {}, time.Now().Add(-time.Hour)} {
				if got := l.SettleAt("a", at, 4, 0); got != 4 {
					t.Errorf("%+v: %d are charged: want all 4", q, got)
				}
			}
			if after, _ := l.Used("a"); after != before {
				t.Errorf("%+v: %d are used, after %d", q, after, before)
			}
			if got := l.Settle("a", 3, 1); got != 1 {
				t.Errorf("%+v: %d are charged: want what was just counted to come back", q, got)
			}
			if got := l.SettleAt("nobody", time.Now(), 3, 1); got != 3 {
				t.Errorf("%+v: a key without a count: %d are charged: want 3", q, got)
			}
			l.Settle("fresh", 0, 15)
			if d := l.Take("fresh", 1, 0); d.OK || d.Remaining != 0 {
				t.Errorf("%+v: a fresh key is charged: %+v", q, d)
			}
			time.Sleep(500 * ms) // for the next to begin with a window
		}
	})
}

func TestUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fixed, slides := newLimiter(t, perSecond(10), tally.Config{}), newLimiter(t, sliding(perSecond(10)), tally.Config{})
		for _, tt := range []struct {
			at        time.Duration
			n         int
			used      int
			reset     time.Duration
			estimated int
			fades     time.Duration
		}{
			{0, 0, 0, 0, 0, 0},
			{200 * ms, 5, 5, time.Second, 5, 1800 * ms},
			{1100 * ms, 2, 7, 100 * ms, 7, 1900 * ms}, // of 5, 4.5 count
			{1200 * ms, 0, 0, 0, 6, 1800 * ms},
			{3 * time.Second, 0, 0, 0, 0, 0},
		} {
			time.Sleep(tt.at - time.Duration(time.Now().UnixNano()-946684800e9)) // bubbles begin with 2000
			fixed.Take("a", tt.n, 0)
			slides.Take("a", tt.n, 0)
			if used, reset := fixed.Used("a"); used != tt.used || reset != tt.reset {
				t.Errorf("at %v: %d for %v: want %d for %v", tt.at, used, reset, tt.used, tt.reset)
			}
			if used, reset := slides.Used("a"); used != tt.estimated || reset != tt.fades {
				t.Errorf("at %v, sliding: %d for %v: want %d for %v", tt.at, used, reset, tt.estimated, tt.fades)
			}
		}
		fixed.Settle("b", 0, 15)
		if used, _ := fixed.Used("b"); used != 15 {
			t.Errorf("%d are used: want the debt to count", used)
		}
	})
}

func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const s = time.Second
		for _, tt := range []struct {
			rule  string
			q     tally.Quota
			taken int // 400 ms ago, at 200 ms
			n     int
			want  time.Duration
		}{
			{"what is left is there", perSecond(5), 2, 3, 0},
			{"nothing always is", perSecond(5), 5, 0, 0},
			{"the next come with the next window", perSecond(5), 2, 4, 600 * ms},
			{"and that is all of it", perSecond(5), 2, 8, 600 * ms},
			{"more need one more", perSecond(5), 2, 9, 1600 * ms},
			{"or many", perSecond(5), 5, 100, 600*ms + 19*s},
			{"who is new begins a window now", perSecond(5), 0, 6, s},
			{"debt ends with the window", perSecond(5), 9, 5, 600 * ms},
			{"no limit, no hope", perSecond(0), 0, 1, weir.Never},
			{"no end, no hope", tally.Quota{Limit: 5}, 5, 1, weir.Never},
			{"too long to tell", tally.Quota{Limit: 1, Period: 1e6 * time.Hour}, 1, 1 << 40, weir.Never},
			{"sliding: what is left is there", sliding(perSecond(5)), 2, 3, 0},
			{"sliding: the next when enough has faded", sliding(perSecond(5)), 2, 4, 600 * ms}, // 2·1 + 3 left of 5
			{"sliding: no limit, no hope", sliding(perSecond(0)), 0, 1, weir.Never},
		} {
			time.Sleep(s - time.Since(time.Now().Truncate(s)) + 200*ms)
			l := newLimiter(t, tt.q, tally.Config{})
			if tt.taken > 0 {
				l.Settle("a", 0, tt.taken)
			}
			time.Sleep(400 * ms)
			if got := l.Ahead("a", tt.n); got != tt.want {
				t.Errorf("%s: %v: want %v", tt.rule, got, tt.want)
			}
		}
	})
}

// Ahead is when those who come one by one, each as soon as it can, have had n.
func FuzzAhead(f *testing.F) {
	for n := range uint64(100) {
		f.Add(n, n%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, slides bool) {
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 6))
			limit := 1 + chance.IntN(20)
			l := newLimiter(t, tally.Quota{Limit: limit, Period: time.Second, Sliding: slides}, tally.Config{})
			for range chance.IntN(10) {
				l.Take("a", chance.IntN(limit+1), 0)
				time.Sleep(time.Duration(chance.IntN(int(time.Second))))
			}
			n := chance.IntN(25 * limit)
			began := time.Now()
			got := l.Ahead("a", n)
			for range n {
				d := l.Take("a", 1, 0)
				for ; !d.OK; d = l.Take("a", 1, 0) {
					time.Sleep(d.RetryAfter)
				}
			}
			if want := time.Since(began); got != want {
				t.Errorf("%d of %d: ahead by %v: want %v", n, limit, got, want)
			}
		})
	})
}

func TestSetQuota(t *testing.T) {
	type quota = tally.Quota
	const s, m = time.Second, time.Minute
	for _, tt := range []struct {
		rule   string
		q, to  quota
		taken  int // 30 s after the minute; the change is 15 s later
		left   int
		resets time.Duration
	}{
		{"a larger limit leaves more", quota{10, m, false}, quota{20, m, false}, 4, 16, 45 * s},
		{"a smaller one less", quota{10, m, false}, quota{5, m, false}, 4, 1, 45 * s},
		{"or nothing", quota{10, m, false}, quota{3, m, false}, 4, 0, 45 * s},
		{"sliding too", quota{10, m, true}, quota{20, m, true}, 4, 16, 75 * s},
		{"a shorter window begins now", quota{10, m, false}, quota{10, s, false}, 4, 6, s},
		{"a longer one too", quota{10, m, false}, quota{10, time.Hour, false}, 4, 6, time.Hour},
		{"what used less than it may is not cut", quota{100, m, false}, quota{10, s, false}, 40, 0, s},
		{"a shorter one that slides", quota{10, m, true}, quota{10, s, true}, 4, 6, 2 * s},
		{"a longer one that slides", quota{10, m, true}, quota{10, time.Hour, true}, 4, 6, 2*time.Hour - 45*s},
		{"to sliding", quota{10, m, false}, quota{10, m, true}, 4, 6, 75 * s},
		{"from sliding", quota{10, m, true}, quota{10, m, false}, 4, 6, m},
		{"who used nothing has used nothing", quota{10, m, true}, quota{10, s, false}, 0, 10, 0},
		{"who had used what has ended neither", quota{10, s, false}, quota{10, m, false}, 4, 10, 0},
		{"nor what has faded", quota{10, s, true}, quota{10, m, false}, 4, 10, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(30 * s)
				l := newLimiter(t, tt.q, tally.Config{})
				l.Take("a", tt.taken, 0)
				at := time.Now()
				time.Sleep(15 * s)
				l.SetQuota(tt.to)
				if d := l.Take("a", 0, 0); d.Remaining != tt.left || d.ResetAfter != tt.resets {
					t.Errorf("%+v: want %d left, and all in %v", d, tt.left, tt.resets)
				}
				if d := l.Take("b", 0, 0); d.Remaining != tt.to.Limit {
					t.Errorf("who was not there: %+v", d)
				}
				used, _ := l.Used("a")
				if l.SettleAt("a", at, 4, 0); tt.q.Period != tt.to.Period && !tt.to.Sliding {
					if after, _ := l.Used("a"); after != used {
						t.Errorf("what was counted before is given back to a window that began since: %d of %d", used-after, used)
					}
				}
			})
		})
	}
}

// What an estimate of the last window's makes is what counts.
func TestSetQuotaAmidFading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sliding(perSecond(10)), tally.Config{})
		l.Take("a", 10, 0)
		time.Sleep(1250 * ms) // 7.5 are left of that
		l.SetQuota(perSecond(10))
		if used, reset := l.Used("a"); used != 8 || reset != time.Second {
			t.Errorf("%d for %v", used, reset)
		}
	})
}

// alone is a map of the states of windows: what tally does in bounded memory.
type alone struct {
	q      tally.Quota
	debt   int
	fixed  map[string]window.Count
	slides map[string]window.Counts
}

func newAlone(q tally.Quota, debt int) *alone {
	return &alone{q, debt, map[string]window.Count{}, map[string]window.Counts{}}
}

func (a *alone) take(key string, now time.Duration, n, limit int) (d weir.Decision) {
	if limit <= 0 {
		limit = a.q.Limit
	}
	if a.q.Sliding {
		a.slides[key], d = window.Sliding{Limit: limit, Period: a.q.Period}.Take(a.slides[key], now, n)
		return d
	}
	a.fixed[key], d = window.Fixed{Limit: limit, Calendar: window.Every(a.q.Period, now)}.Take(a.fixed[key], now, n)
	return d
}

func (a *alone) settle(key string, at, now time.Duration, was, n int) (took int) {
	p := a.q.Period
	slides, fixed := window.Sliding{Limit: a.q.Limit, Period: p}, window.Fixed{Limit: a.q.Limit, Calendar: window.Every(p, now)}
	c, cs := a.fixed[key], a.slides[key]
	switch {
	case n > was && a.q.Sliding:
		a.slides[key], took = slides.Charge(cs, now, n-was, a.debt)
	case n > was:
		a.fixed[key], took = fixed.Charge(c, now, n-was, a.debt)
	case a.q.Sliding && at/p == now/p && cs.Start/p == now/p:
		took = -min(was-n, cs.Used)
		cs.Used += took
		a.slides[key] = cs
	case !a.q.Sliding && c.End-p <= at && now < c.End:
		took = -min(was-n, c.Used)
		if c.Used += took; c.Used == 0 {
			c = window.Count{} // the next event is the first
		}
		a.fixed[key] = c
	}
	return was + took
}

// set counts what there is now under another quota, as if it came now.
func (a *alone) set(q tally.Quota, now time.Duration) {
	was := *a
	a.q = q
	if was.q.Period == q.Period && was.q.Sliding == q.Sliding {
		return
	}
	*a = *newAlone(q, a.debt)
	for key := range was.fixed {
		a.take(key, now, math.MaxInt-was.take(key, now, 0, math.MaxInt).Remaining, math.MaxInt)
	}
	for key := range was.slides {
		a.take(key, now, math.MaxInt-was.take(key, now, 0, math.MaxInt).Remaining, math.MaxInt)
	}
}

// While there is memory, keys do as they do alone, whatever happens.
func FuzzLimiter(f *testing.F) {
	for n := range uint64(60) {
		f.Add(n, uint16(n*20), n%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, slides bool) {
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 8))
			q := tally.Quota{Limit: 1 + chance.IntN(8), Period: time.Second, Sliding: slides}
			debt := chance.IntN(9)
			l, a := newLimiter(t, q, tally.Config{Memory: 1 << 20, MaxDebt: cmpOr(debt)}), newAlone(q, debt)
			epoch := time.Unix(0, 0)
			taken := map[string]time.Time{}
			for range n % 2000 {
				time.Sleep(time.Duration(chance.IntN(int(200 * ms))))
				now := time.Since(epoch)
				key := fmt.Sprint(chance.IntN(5))
				switch what := chance.IntN(12); what {
				case 0:
					if chance.IntN(10) == 0 {
						q = tally.Quota{Limit: 1 + chance.IntN(8), Period: time.Duration(1+chance.IntN(3)) * time.Second, Sliding: chance.IntN(2) == 0}
						l.SetQuota(q)
						a.set(q, now)
					}
				case 1:
					l = again(t, l, q, tally.Config{Memory: 1 << 20, MaxDebt: cmpOr(debt)})
				case 2, 3, 4:
					was, n, at := chance.IntN(4), chance.IntN(6), taken[key]
					if at.IsZero() {
						continue
					}
					if got, want := l.SettleAt(key, at, was, n), a.settle(key, at.Sub(epoch), now, was, n); got != want {
						t.Fatalf("%d instead of %d, taken %v ago: %d: want %d", n, was, time.Since(at), got, want)
					}
				default:
					n, limit := chance.IntN(4), chance.IntN(12)*chance.IntN(2)
					got, want := l.Take(key, n, limit), a.take(key, now, n, limit)
					if got != want {
						t.Fatalf("%s takes %d, limit %d: %+v: want %+v", key, n, limit, got, want)
					}
					taken[key] = time.Now()
				}
			}
		})
	})
}

// cmpOr is a MaxDebt that means debt.
func cmpOr(debt int) int {
	if debt == 0 {
		return -1
	}
	return debt
}
