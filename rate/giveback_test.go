package rate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// In whatever order holders settle and cancel: when all have said that their cost
// is nothing, all is as before.
func TestAllIsGivenBackInTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name   string
		most   int // that is settled for
		limits []rate.Limit
	}{
		{"down to nothing", 0, []rate.Limit{1e-6}},
		{"down to one, or up to it", 1, []rate.Limit{1e-6}},
		{"up", 7, []rate.Limit{1e-6}},
		{"up, while the limit changes", 7, []rate.Limit{1e-6, 2e-6, 1e-7}},
		{"up, and the limit is zero at times", 7, []rate.Limit{1e-6, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(1000) {
				bubble(t, func(t *testing.T) {
					chance := rand.New(rand.NewPCG(seed, 3))
					l := rate.New(gcra.PerSecond(1e-6, 100), rate.Config{MaxDebt: 1000})
					l.AllowN(time.Now(), 95)
					var reserved []*rate.Reservation
					var costs [3]int
					var told []string
					for range 2 + chance.IntN(10) {
						switch n := chance.IntN(5); chance.IntN(4) {
						case 0, 1:
							told = append(told, fmt.Sprintf("%d reserves %d", len(reserved), n))
							reserved = append(reserved, l.ReserveN(time.Now(), n))
						case 2:
							if len(reserved) > 0 {
								i := chance.IntN(len(reserved))
								reserved[i].Cancel()
								told = append(told, fmt.Sprintf("%d cancels", i))
							}
						default:
							i, n := chance.IntN(len(costs)), chance.IntN(tt.most+1)
							costs[i] = l.Settle(costs[i], n)
							told = append(told, fmt.Sprintf("%d settles for %d", i, n))
						}
						l.SetLimit(tt.limits[chance.IntN(len(tt.limits))])
					}
					for _, r := range reserved {
						r.Cancel()
					}
					for _, n := range costs {
						l.Settle(n, 0)
					}
					if got := l.Tokens(); math.Abs(got-5) > 1e-3 {
						t.Fatalf("%v tokens after %q: want 5", got, told)
					}
				})
			}
		})
	}
}

// In golang.org/x/time/rate a reservation cancelled among waiters gives back
// what others already count on.
func TestPromisesAndWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 3)
		q := newLine(t, l)
		q.join("none", 3)
		q.join("a", 1) // 100 ms
		r1 := l.ReserveN(time.Now(), 2)
		leave := q.join("b", 2) // 500 ms
		r2 := l.ReserveN(time.Now(), 1)
		q.join("c", 1) // 700 ms
		if r1.Delay() != 3*tick || r2.Delay() != 6*tick {
			t.Errorf("delays %v, %v", r1.Delay(), r2.Delay())
		}
		time.Sleep(tick * 3 / 2)
		leave() // of b's two tokens, r2 keeps one until it is due or cancelled
		tokens(t, l, -4.5)
		r2.Cancel() // its own, which moves c
		tokens(t, l, -3.5)
		if r1.Delay() != tick*3/2 {
			t.Errorf("delay %v", r1.Delay())
		}
		time.Sleep(tick) // at 250 ms
		r1.Cancel()      // the last promise: all comes back
		synctest.Wait()
		tokens(t, l, 0.5)
		time.Sleep(time.Minute)
		q.expect("none go 0s", "a go 100ms", "b cancel 150ms", "c go 250ms")
	})
}

// A call that leaves before a Reservation that stays gives back no more than leaves
// room for it: it must not come on top of a full burst.
func TestLeaversBreakNoPromise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 2)
		q := newLine(t, l)
		q.join("none", 2)
		leave := []func(){q.join("a", 2), q.join("b", 2)}
		r := l.ReserveN(time.Now(), 1)
		leave[1]()
		leave[0]()
		time.Sleep(r.Delay())
		n := 1 // the Reservation's own
		for l.Allow() {
			n++
		}
		if n > 2 {
			t.Errorf("%d at once: want a burst of 2", n)
		}
	})
}

// What was held back for a Reservation might have filled the bucket meanwhile:
// it serves the calls that wait as far as the burst goes.
func TestWhatWasHeldBackIsNoMoreThanABurst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 2)
		q := newLine(t, l)
		q.join("none", 2)
		leave := q.join("a", 2)
		r := l.ReserveN(time.Now(), 1) // 300 ms
		leave()
		time.Sleep(tick)
		q.join("b", 1)
		q.join("c", 2)
		time.Sleep(tick * 3 / 2)
		r.Cancel() // the bucket is full since 200 ms
		time.Sleep(time.Minute)
		q.expect("a cancel 0s", "none go 0s", "b go 250ms", "c go 350ms")
	})
}
