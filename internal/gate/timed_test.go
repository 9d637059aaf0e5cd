package gate_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// controller returns the methods of an Auto, for limits that have their own for some.
func controller(t *testing.T) limit.Controller {
	t.Helper()
	a, err := limit.NewAuto(limit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return a.(limit.Controller)
}

// A lowered is a limit of 1 that becomes 2 after a second, without a sample.
type lowered struct {
	limit.Controller
	n int
}

func (l *lowered) Limit() int                            { return l.n }
func (l *lowered) Observe(limit.Sample) limit.Cause      { return limit.Kept }
func (l *lowered) Deadline() (at time.Duration, ok bool) { return time.Second, l.n == 1 }
func (l *lowered) Expire(now time.Duration) limit.Cause {
	if l.n == 1 && now >= time.Second {
		l.n = 2
		return limit.Throughput
	}
	return limit.Kept
}

// A limit that changes with time lets a waiter in at its deadline, also while
// all that is in flight hangs.
func TestATimedLimitNeedsNoDeparture(t *testing.T) {
	g := gate.New[string](&lowered{controller(t), 1}, gate.Config{Queue: 10})
	if v, _ := g.Enter(gate.Request{N: 1}); v != gate.Admit {
		t.Fatal("the first is not admitted")
	}
	if _, ok := g.Deadline(); ok {
		t.Error("a deadline, though nothing waits")
	}
	if v, _ := g.Enter(gate.Request{N: 1}); v != gate.Wait {
		t.Fatal("the second does not wait")
	}
	if _, why := g.Join(0, gate.Request{N: 1}, "second"); why != 0 {
		t.Fatal(why)
	}
	if at, ok := g.Deadline(); !ok || at != time.Second {
		t.Errorf("deadline %v, %v: want 1s", at, ok)
	}
	if a, ok := g.Next(time.Second - 1); ok {
		t.Errorf("%+v before the deadline", a)
	}
	if a, ok := g.Next(time.Second); !ok || a.Waiter != "second" || a.Reason != 0 {
		t.Errorf("%+v, %v: want the second admitted", a, ok)
	}
}

// A dip is a limit of n that is lowered to 1 from one instant to another.
type dip struct {
	limit.Controller
	n           int
	from, until time.Duration
	now         time.Duration
}

func (d *dip) lowered() bool                    { return d.from <= d.now && d.now < d.until }
func (d *dip) Observe(limit.Sample) limit.Cause { return limit.Kept }
func (d *dip) Deadline() (time.Duration, bool)  { return d.until, d.lowered() }
func (d *dip) Limit() int {
	if d.lowered() {
		return 1
	}
	return d.n
}
func (d *dip) Expire(now time.Duration) limit.Cause {
	d.now = now
	return limit.Kept
}

// The queue of a limit that is lowered for a moment is no overload: no waiter is
// refused meanwhile, and for as long again. A queue that was there before is one.
func TestALoweredLimitRefusesNobody(t *testing.T) {
	const ms = time.Millisecond
	for _, d := range []gate.Discipline{gate.CoDel, gate.AdaptiveLIFO} {
		for _, tt := range []struct {
			rule     string
			lowered  time.Duration // when the limit is, for 400 ms; there is a queue from the beginning
			from, to time.Duration // the first is refused between these
		}{
			{"a queue since the limit is lowered", 0, 790 * ms, 900 * ms},
			{"a queue since before", 60 * ms, 100 * ms, 200 * ms},
		} {
			t.Run(string(d)+", "+tt.rule, func(t *testing.T) {
				g := gate.New[int](&dip{Controller: controller(t), n: 2, from: tt.lowered, until: tt.lowered + 400*ms}, gate.Config{Queue: 100, Discipline: d})
				for range 2 {
					g.Enter(gate.Request{N: 1})
				}
				first := time.Duration(-1)
				for now := time.Duration(0); first < 0 && now < 2*time.Second; now += ms {
					if v, _ := g.Enter(gate.Request{N: 1}); v == gate.Wait {
						g.Join(now, gate.Request{N: 1}, 0)
					}
					if a, ok := g.Next(now); ok && a.Reason != 0 {
						first = now
					}
				}
				if first < tt.from || first > tt.to {
					t.Errorf("the first is refused at %v: want it between %v and %v", first, tt.from, tt.to)
				}
			})
		}
	}
}

// A new limit ends the pause of the last one's drain. The pause of later drains
// lasts twice as long as they do, whenever the last one's had begun.
func TestSetAlgorithmInADrain(t *testing.T) {
	const ms = time.Millisecond
	for _, d := range []gate.Discipline{gate.CoDel, gate.AdaptiveLIFO} {
		t.Run(string(d), func(t *testing.T) {
			g := gate.New[int](&dip{Controller: controller(t), n: 2, until: 400 * ms}, gate.Config{Queue: 100, Discipline: d})
			g.Next(0)
			g.SetAlgorithm(limit.Fixed(2)) // in the middle of a drain
			g.Next(2000 * ms)
			g.SetAlgorithm(&dip{Controller: controller(t), n: 2, from: 2000 * ms, until: 2400 * ms})
			g.Next(2000 * ms)
			for range 2 {
				g.Enter(gate.Request{N: 1})
			}
			first := time.Duration(-1)
			for now := 2000 * ms; first < 0 && now < 6*time.Second; now += ms {
				if v, _ := g.Enter(gate.Request{N: 1}); v == gate.Wait {
					g.Join(now, gate.Request{N: 1}, 0)
				}
				if a, ok := g.Next(now); ok && a.Reason != 0 {
					first = now
				}
			}
			if first < 2790*ms || first > 2900*ms {
				t.Errorf("the first is refused at %v: want it between 2.79s and 2.9s", first)
			}
		})
	}
}
