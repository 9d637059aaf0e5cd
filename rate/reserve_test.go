package rate_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

func TestReserve(t *testing.T) {
	for name, tt := range map[string]struct {
		limit rate.Limit
		burst int
		story script
	}{
		"one after the other": {10, 2, script{
			reserve("a", 0, 2, 0), reserve("b", 0, 2, 2), reserve("c", 3, 2, 4), holds(3, -1), holds(5, 1),
		}},
		"more than the burst is refused, and costs nothing": {10, 2, script{
			refuse(0, 3), reserve("a", 0, 2, 0), refuse(0, 3), refuse(0, math.MaxInt), reserve("b", 0, 2, 2),
		}},
		"what is reserved is not there for others": {10, 2, script{
			reserve("a", 0, 2, 0), holds(1, 1), deny(1, 2), reserve("b", 1, 2, 2), holds(1, -1), deny(1, 1),
			holds(3, 1), allow(3, 1),
		}},
		"nothing is reserved at once, but not in debt": {10, 2, script{
			reserve("a", 0, 2, 0), reserve("none", 0, 0, 0), reserve("b", 0, 1, 1), reserve("none", 0, 0, 1), allow(2, 1),
		}},
		"an older time waits for the others' tokens": {10, 2, script{
			reserve("a", 1, 2, 1), reserve("b", 0, 1, 2), reserve("c", 2, 2, 4), refuse(0, 3), reserve("d", 2, 1, 5),
		}},
		"a rate of zero reserves its burst": {0, 2, script{
			reserve("a", 0, 2, 0), refuse(0, 3),
		}},
		"SetLimit leaves a reservation its time": {5, 2, script{
			reserve("a", 0, 2, 0), reserve("b", 0, 2, 4), setLimit(2, 10), holds(2, -1), reserve("c", 2, 1, 4),
		}},
		"SetBurst, too": {5, 2, script{
			reserve("a", 0, 2, 0), reserve("b", 0, 2, 4), setBurst(3, 4), reserve("c", 3, 4, 12),
		}},
		"SetBurst leaves a reservation above the new burst": {10, 4, script{
			reserve("a", 0, 4, 0), reserve("b", 0, 4, 4), setBurst(1, 2), refuse(1, 3), holds(1, -3),
			reserve("c", 1, 2, 6), deny(6, 1), allow(7, 1), holds(100, 2),
		}},
		"SetBurst up gives nothing": {10, 2, script{
			setBurst(0, 5), holds(0, 2), allow(0, 2), deny(0, 1), holds(5, 5),
		}},
		"SetBurst down takes what it cannot hold": {10, 5, script{
			setBurst(0, 2), holds(0, 2), setBurst(0, 5), holds(0, 2), allow(0, 1), setBurst(0, 3), holds(0, 1),
		}},
		"SetLimit up and down leave the tokens": {10, 5, script{
			allow(0, 4), holds(2, 3), setLimit(2, 1000), holds(2, 3), setLimit(2, 5), holds(2, 3), holds(4, 4),
		}},
		"SetLimit to no limit, and back": {10, 2, script{
			reserve("a", 0, 2, 0), setLimit(0, rate.Inf), allow(0, 100), setLimit(1, 10), allow(1, 2), deny(1, 1),
		}},
		"an older time counts as that of the change": {10, 2, script{
			allow(0, 2), setLimit(10, 10), holds(0, 2), allow(0, 2), deny(10, 1), allow(11, 1),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, rate.NewLimiter(tt.limit, tt.burst), tt.story)
		})
	}
}

func TestCancel(t *testing.T) {
	for name, tt := range map[string]struct {
		limit rate.Limit
		burst int
		story script
	}{
		"the last one gives all back": {10, 2, script{
			reserve("a", 0, 2, 0), reserve("b", 0, 2, 2), cancel("b", 1), reserve("c", 1, 2, 2),
		}},
		"at the very instant of its turn, too": {10, 2, script{
			reserve("a", 0, 2, 0), reserve("b", 0, 2, 2), cancel("b", 2), allow(2, 2),
		}},
		"what was there at once, too, within its instant": {10, 2, script{
			reserve("a", 0, 2, 0), cancel("a", 0), allow(0, 2),
		}},
		"a nanosecond later it is spent": {10, 2, script{
			reserve("a", 0, 2, 0), cancel("a", 0.00000001), holds(0, 0),
		}},
		"too late": {10, 2, script{
			reserve("a", 0, 2, 0), reserve("b", 0, 2, 2), cancel("b", 3), reserve("c", 3, 2, 4),
		}},
		"as much is reserved later: nothing yet": {10, 2, script{
			reserve("a", 0, 2, 0), reserve("b", 0, 1, 1), reserve("c", 0, 1, 2), cancel("b", 0), reserve("d", 0, 1, 3),
		}},
		"half is reserved later: half": {10, 2, script{
			reserve("a", 0, 2, 0), reserve("b", 0, 2, 2), reserve("c", 0, 1, 3), cancel("b", 2), reserve("d", 2, 2, 4),
		}},
		"the last, then the first": {10, 4, script{
			reserve("a", 0, 4, 0), reserve("b", 0, 3, 3), reserve("c", 0, 1, 4), reserve("d", 0, 1, 5),
			cancel("d", 1), cancel("b", 1), reserve("e", 1, 3, 5),
		}},
		"after a change of the limit, all": {5, 2, script{
			reserve("a", 0, 2, 0), reserve("b", 0, 2, 4), setLimit(2, 10), cancel("b", 2), reserve("c", 2, 2, 3),
		}},
		"after a change of the burst, all": {10, 4, script{
			reserve("a", 0, 4, 0), reserve("b", 0, 4, 4), setBurst(1, 2), cancel("b", 1), holds(1, 1),
		}},
		"never above the burst": {10, 4, script{
			reserve("a", 0, 4, 0), reserve("b", 0, 4, 4), setLimit(0, 1000), holds(0, -4), cancel("b", 4), holds(4, 4), holds(5, 4),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, rate.NewLimiter(tt.limit, tt.burst), tt.story)
		})
	}
}

// What golang.org/x/time/rate gets wrong: tokens are lost, or made.
func TestCancelGivesBackExactly(t *testing.T) {
	for name, story := range map[string]script{
		"first the earlier, then the later": {
			reserve("a", 0, 4, 0), reserve("b", 0, 2, 2), reserve("c", 0, 2, 4),
			cancel("b", 0), holds(0, -4), cancel("c", 0), holds(0, 0),
		},
		"in the order of reserving": {
			reserve("a", 0, 4, 0), reserve("b", 0, 1, 1), reserve("c", 0, 2, 3), reserve("d", 0, 3, 6),
			cancel("b", 0), cancel("c", 0), cancel("d", 0), holds(0, 0),
		},
		"the middle last": {
			reserve("a", 0, 4, 0), reserve("b", 0, 1, 1), reserve("c", 0, 2, 3), reserve("d", 0, 3, 6),
			cancel("d", 0), cancel("b", 0), cancel("c", 0), holds(0, 0),
		},
		"twice": {
			reserve("a", 0, 4, 0), reserve("b", 0, 2, 2), cancel("b", 0), cancel("b", 0), holds(0, 0),
		},
		"twice, with one in between": {
			reserve("a", 0, 4, 0), reserve("b", 0, 2, 2), cancel("b", 0), reserve("c", 0, 2, 2), cancel("b", 0), holds(0, -2),
		},
		"twice, what was there at once": {
			reserve("a", 0, 2, 0), cancel("a", 0), allow(0, 4), cancel("a", 0), deny(0, 1),
		},
		"one that was there, while others wait for later": {
			reserve("a", 0, 2, 0), reserve("b", 0, 3, 1), cancel("a", 0), cancel("b", 0), holds(0, 4),
		},
		"one who was told no time to wait does not move a later one": {
			reserve("a", 0, 4, 0), reserve("b", 0, 4, 4), cancel("a", 0), holds(0, -4), deny(4, 1), allow(5, 1),
		},
		"what an Allow took since is its own": {
			reserve("a", 0, 3, 0), reserve("b", 0, 2, 1), allow(3, 2), cancel("b", 3), holds(3, 0),
		},
		"one of nothing holds nothing back": {
			reserve("a", 0, 4, 0), reserve("b", 0, 1, 1), reserve("c", 0, 2, 3), reserve("none", 0, 0, 3),
			cancel("b", 0), cancel("c", 0), holds(0, 0),
		},
		"what is due is past": {
			reserve("a", 0, 4, 0), reserve("b", 0, 2, 2), allow(9, 4), reserve("c", 9, 2, 11), reserve("d", 9, 2, 13),
			cancel("c", 9), cancel("d", 9), holds(9, 0),
		},
		"after a change of the limit": {
			reserve("a", 0, 4, 0), reserve("b", 0, 2, 2), reserve("c", 0, 2, 4), setLimit(1, 5), holds(1, -3),
			cancel("c", 1), cancel("b", 1), holds(1, 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, rate.NewLimiter(10, 4), story)
		})
	}
}

// Every order of cancelling everything leaves a full bucket.
func TestCancelInEveryOrder(t *testing.T) {
	costs := []int{1, 3, 2, 4, 1}
	var orders func(left, done []int)
	orders = func(left, done []int) {
		if len(left) == 0 {
			l := rate.NewLimiter(10, 4)
			var held []*rate.Reservation
			for _, n := range costs {
				held = append(held, l.ReserveN(start, n))
			}
			for _, i := range done {
				held[i].CancelAt(start)
				held[i].CancelAt(start)
			}
			if got := l.TokensAt(start); got != 4 {
				t.Errorf("cancelled in the order %v: %v tokens: want 4", done, got)
			}
		}
		for i := range left {
			rest := append(append([]int{}, left[:i]...), left[i+1:]...)
			orders(rest, append(append([]int{}, done...), left[i]))
		}
	}
	orders([]int{0, 1, 2, 3, 4}, nil)
}

// What was held back for one that is due by now is of no use any more: the
// bucket would have been full without it.
func TestCancelIsTooLateForWhatWasHeldBack(t *testing.T) {
	play(t, rate.NewLimiter(10, 2), script{
		allow(0, 2), reserve("a", 1.5, 1, 1.5), reserve("b", 1.5, 2, 3), reserve("c", 1.5, 2, 5),
		cancel("a", 1.5), cancel("c", 3.5), holds(3.5, 0.5),
	})
}

// The holders of Reservations that are kept do not act above the rate together,
// whichever others are cancelled.
func TestCancelBreaksNoPromise(t *testing.T) {
	play(t, rate.NewLimiter(10, 2), script{
		reserve("a", 0, 2, 0), reserve("b", 0, 1, 1), reserve("c", 0, 1, 2), reserve("d", 0, 1, 3),
		cancel("b", 0), // c and d keep their times: b's token is of no use to a call before them
		deny(0.5, 1), deny(1, 1), deny(2, 1), deny(3, 1), reserve("e", 3, 1, 4),
	})
}

func TestReserveNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.New(gcra.Per(10, time.Second, 2), rate.Config{})
		for i, s := range []struct {
			n     int
			ok    bool
			delay time.Duration
		}{
			{2, true, 0},
			{1, true, tick},
			{3, false, rate.InfDuration},
			{2, true, 3 * tick},
		} {
			if r := l.ReserveN(time.Now(), s.n); r.OK() != s.ok || r.Delay() != s.delay {
				t.Errorf("step %d: %v, %v: want %v, %v", i, r.OK(), r.Delay(), s.ok, s.delay)
			}
		}
		tokens(t, l, -3)
	})
}

func TestDelayRunsOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 1)
		l.Reserve()
		r := l.Reserve()
		for _, want := range []time.Duration{tick, tick / 2, 0, 0} {
			if got := r.Delay(); !r.OK() || got != want {
				t.Errorf("delay %v: want %v", got, want)
			}
			time.Sleep(tick / 2)
		}
		if got := r.DelayFrom(time.Now().Add(-time.Second)); got != 900*time.Millisecond {
			t.Errorf("delay from a second ago %v: want 900ms", got)
		}
		r.Cancel() // has acted
		tokens(t, l, 1)
		l.Reserve()
		r = l.Reserve()
		r.Cancel()
		tokens(t, l, 0)
	})
}

// A promise that does not come: golang.org/x/time/rate calls it OK, with a
// Delay of InfDuration, and so does this.
func TestReserveOfWhatDoesNotComeIn(t *testing.T) {
	play(t, rate.NewLimiter(0, 1), script{allow(0, 1), func(p *player) string {
		r := p.l.ReserveN(at(0), 1)
		return wrong("delay", r.DelayFrom(at(0)), rate.InfDuration)
	}})
}

// A debt of centuries is a debt.
func TestChangeForgivesNoDebt(t *testing.T) {
	for _, r := range []rate.Limit{10, 1e-6, 1e-9, 1e-12} {
		l := rate.NewLimiter(r, 8)
		l.AllowN(start, 8)
		held := l.ReserveN(start, 3)
		l.SetLimitAt(start, r)
		if held.CancelAt(start); l.TokensAt(start) > 0.001 {
			t.Errorf("%v a second: %v tokens: want none", r, l.TokensAt(start))
		}
	}
}
