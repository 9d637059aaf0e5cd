package keyedtable_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/keyedtable"
)

func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		rule        string
		maxDebt     int
		after       time.Duration // that 4 of 10 were taken
		was, n      int
		want, slid  int // charged, if windows are fixed, and if they slide
		left, slide int // likewise
	}{
		{"less comes back", 0, 0, 4, 1, 1, 1, 9, 9},
		{"nothing at all", 0, 0, 4, 0, 0, 0, 10, 10},
		{"not more than there was", 0, 0, 7, 0, 3, 3, 10, 10},
		{"until the window ends", 0, time.Second - 1, 4, 1, 1, 1, 9, 9},
		{"and then it is too late, unless it still counts", 0, time.Second, 4, 1, 4, 1, 10, 9},
		{"or has faded", 0, 2 * time.Second, 4, 1, 4, 4, 10, 10},
		{"more is counted", 0, 0, 4, 9, 9, 9, 1, 1},
		{"in the present window", 0, time.Second, 4, 9, 9, 9, 5, 1},
		{"beyond the limit, by as much", 0, 0, 4, 60, 20, 20, 0, 0},
		{"or by as much as allowed", 3, 0, 4, 60, 13, 13, 0, 0},
		{"or not", -1, 0, 4, 60, 10, 10, 0, 0},
		{"however much it is", math.MaxInt, 0, 4, math.MaxInt, keyedtable.MaxLimit, keyedtable.MaxLimit, 0, 0},
	} {
		for _, slides := range []bool{false, true} {
			want, left := tt.want, tt.left
			if slides {
				want, left = tt.slid, tt.slide
			}
			t.Run(fmt.Sprintf("%s, sliding %v", tt.rule, slides), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := keyedtable.Window{Limit: 10, Period: time.Second, Sliding: slides}
					l := newLimiter(t, q, keyedtable.Config{MaxDebt: tt.maxDebt})
					l.Take("a", 4, 0)
					at := time.Now()
					time.Sleep(tt.after)
					if got := l.SettleAt("a", at, tt.was, tt.n); got != want {
						t.Errorf("%d are charged: want %d", got, want)
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
		for _, q := range []keyedtable.Window{perSecond(10), sliding(perSecond(10))} {
			l := newLimiter(t, q, keyedtable.Config{})
			l.Take("a", 4, 0)
			past := time.Now()
			time.Sleep(2500 * ms)
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
			if got := l.SettleAt("a", time.Now().Add(time.Hour), 3, 1); got != 1 {
				t.Errorf("%+v: %d are charged: want what was just counted to come back", q, got)
			}
			if got := l.SettleAt("nobody", time.Now(), 3, 1); got != 3 {
				t.Errorf("%+v: a key without a count: %d are charged: want 3", q, got)
			}
			l.SettleAt("fresh", time.Now(), 0, 15)
			if d := l.Take("fresh", 1, 0); d.OK || d.Remaining != 0 {
				t.Errorf("%+v: a fresh key is charged: %+v", q, d)
			}
			time.Sleep(500 * ms) // for the next to begin with a window
		}
	})
}

// A charge of nothing takes no place.
func TestSettleNothing(t *testing.T) {
	l := newLimiter(t, perSecond(0), keyedtable.Config{MaxDebt: -1})
	before := l.Stats()
	if got := l.SettleAt("a", time.Now(), 1, 5); got != 1 || l.Stats() != before {
		t.Errorf("%d are charged; %+v, and before %+v", got, l.Stats(), before)
	}
}

func TestUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fixed, slides := newLimiter(t, perSecond(10), keyedtable.Config{}), newLimiter(t, sliding(perSecond(10)), keyedtable.Config{})
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
		fixed.SettleAt("b", time.Now(), 0, 15)
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
			q     keyedtable.Window
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
			{"no end, no hope", keyedtable.Window{Limit: 5}, 5, 1, weir.Never},
			{"too long to tell", keyedtable.Window{Limit: 1, Period: 1e6 * time.Hour}, 1, 1 << 40, weir.Never},
			{"sliding: what is left is there", sliding(perSecond(5)), 2, 3, 0},
			{"sliding: the next when enough has faded", sliding(perSecond(5)), 2, 4, 600 * ms}, // 2·1 + 3 left of 5
			{"sliding: no limit, no hope", sliding(perSecond(0)), 0, 1, weir.Never},
			{"sliding: no end, no hope", keyedtable.Window{Limit: 5, Sliding: true}, 5, 1, weir.Never},
			{"sliding: too long to tell", sliding(keyedtable.Window{Limit: 1, Period: time.Hour}), 1, 1 << 40, weir.Never},
			{"sliding: long", sliding(keyedtable.Window{Limit: 1, Period: time.Millisecond}), 1, 1 << 40, (1<<41 - 2) * ms},
		} {
			time.Sleep(s - time.Since(time.Now().Truncate(s)) + 200*ms)
			l := newLimiter(t, tt.q, keyedtable.Config{})
			if tt.taken > 0 {
				l.SettleAt("a", time.Now(), 0, tt.taken)
			}
			time.Sleep(400 * ms)
			if got := l.Ahead("a", tt.n, 0); got != tt.want {
				t.Errorf("%s: %v: want %v", tt.rule, got, tt.want)
			}
		}
	})
}

// Ahead is when events that come one by one, each as soon as it can, are n.
func FuzzAhead(f *testing.F) {
	for n := range uint64(100) {
		f.Add(n, n%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, slides bool) {
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 6))
			limit := 1 + chance.IntN(20)
			l := newLimiter(t, keyedtable.Window{Limit: limit, Period: time.Second, Sliding: slides}, keyedtable.Config{})
			for range chance.IntN(10) {
				l.Take("a", chance.IntN(limit+1), 0)
				time.Sleep(time.Duration(chance.IntN(int(time.Second))))
			}
			n := chance.IntN(25 * limit)
			began := time.Now()
			got := l.Ahead("a", n, 0)
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

// Reset forgets what a key has used, in both windows, and leaves other keys as they are.
func TestWindowsReset(t *testing.T) {
	for _, sliding := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, err := keyedtable.NewWindows[string](keyedtable.Window{Limit: 10, Period: time.Minute, Sliding: sliding}, keyedtable.Config{})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{10, 1} {
				l.Take("a", n, 0)
				l.Take("b", n, 0)
				if n > 1 {
					time.Sleep(70 * time.Second)
				}
			}
			want, _ := l.Used("a")
			if used := l.Reset("a"); used != want || used == 0 {
				t.Errorf("sliding %v: %d returned: want %d", sliding, used, want)
			}
			if used, _ := l.Used("a"); used != 0 || l.Reset("a") != 0 || l.Reset("c") != 0 {
				t.Errorf("sliding %v: %d used after the reset", sliding, used)
			}
			if d := l.Take("a", 10, 0); !d.OK {
				t.Errorf("sliding %v: %+v", sliding, d)
			}
			if used, _ := l.Used("b"); used != want {
				t.Errorf("sliding %v: b has used %d: want %d", sliding, used, want)
			}
		})
	}
}
