package gate_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/gate"
	"github.com/weir-go/weir/limit"
)

// A lowered is a limit of 1 that becomes 2 after a second, without a sample.
type lowered struct{ n int }

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
	g := gate.New[string](&lowered{1}, gate.Config{Queue: 10})
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
