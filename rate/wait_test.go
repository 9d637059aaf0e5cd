package rate_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/rate"
)

func TestWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 3)
		began := time.Now()
		for i, s := range []struct {
			n     int
			what  string
			delay time.Duration
		}{
			{4, "over_burst", 0},
			{2, "go", 0},
			{3, "go", 2 * tick},
			{0, "go", 0},
			{1, "go", tick},
			{3, "go", 3 * tick},
		} {
			asked := time.Now()
			if got := what(l.WaitN(t.Context(), s.n)); got != s.what || time.Since(asked) != s.delay {
				t.Errorf("step %d: %s after %v: want %s after %v", i, got, time.Since(asked), s.what, s.delay)
			}
		}
		if err := l.Wait(t.Context()); err != nil || time.Since(began) != 7*tick {
			t.Errorf("%v after %v: want 7 ticks", err, time.Since(began))
		}
	})
}

func TestWaitWithoutLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(rate.Inf, 0)
		began := time.Now()
		if err := l.WaitN(t.Context(), 1000); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v: want it to go", err, time.Since(began))
		}
	})
}

// What is no whole number of nanoseconds does not add up.
func TestWaitersComeAtTheRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(3, 1)
		began := time.Now()
		for i := range 100 {
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if want := (time.Duration(i)*time.Second + 2) / 3; time.Since(began) != want {
				t.Errorf("event %d after %v: want %v", i, time.Since(began), want)
			}
		}
	})
}

func TestFirstComeFirstServed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 5)
		q := newLine(t, l)
		q.join("none", 5)
		q.join("a", 5)
		q.join("b", 1) // does not overtake
		q.join("c", 1)
		if l.Waiting() != 3 {
			t.Errorf("%d wait: want 3", l.Waiting())
		}
		time.Sleep(3 * tick)
		if l.Allow() {
			t.Error("an Allow overtakes those who wait")
		}
		if r := l.ReserveN(time.Now(), 1); r.Delay() != 5*tick {
			t.Errorf("a Reserve after %v: want it behind those who wait", r.Delay())
		}
		q.join("d", 2)
		time.Sleep(time.Minute)
		q.expect("none go 0s", "a go 500ms", "b go 600ms", "c go 700ms", "d go 1s")
		if l.Waiting() != 0 {
			t.Errorf("%d wait", l.Waiting())
		}
	})
}

// A call that leaves gives back all it stood for, and the calls behind it move
// forward at once. In golang.org/x/time/rate they wait on, and the tokens are
// gone.
func TestLeaverMovesThoseBehindForward(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 4)
		q := newLine(t, l)
		q.join("none", 4)
		q.join("a", 1)
		leave := q.join("b", 3)
		q.join("c", 2)
		q.join("d", 1)
		time.Sleep(2 * tick)
		tokens(t, l, -5)
		leave()
		tokens(t, l, -2)
		time.Sleep(time.Minute)
		q.expect("none go 0s", "a go 100ms", "b cancel 200ms", "c go 300ms", "d go 400ms")
	})
}

func TestLeaverAtTheHeadLetsOthersGoAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 4)
		q := newLine(t, l)
		q.join("none", 4)
		leave := q.join("a", 4)
		q.join("b", 1)
		q.join("c", 1)
		q.join("d", 2)
		time.Sleep(2 * tick)
		leave()
		tokens(t, l, -2)
		time.Sleep(time.Minute)
		q.expect("none go 0s", "a cancel 200ms", "b go 200ms", "c go 200ms", "d go 400ms")
		tokens(t, l, 4)
	})
}

func TestEverybodyLeaves(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
		bubble(t, func(t *testing.T) {
			l := rate.NewLimiter(10, 3)
			q := newLine(t, l)
			q.join("none", 3)
			leave := []func(){q.join("a", 1), q.join("b", 3), q.join("c", 2)}
			for _, i := range order {
				leave[i]()
			}
			if tokens(t, l, 0); l.Waiting() != 0 {
				t.Errorf("left in the order %v: %d wait", order, l.Waiting())
			}
		})
	}
}

// A cancelled Reservation lets the calls that wait behind it move forward, and so
// does one that is not at the end of the queue.
func TestCancelledReservationMovesWaitersForward(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 2)
		q := newLine(t, l)
		q.join("none", 2)
		first := l.ReserveN(time.Now(), 1)
		q.join("a", 1)
		second := l.ReserveN(time.Now(), 1)
		q.join("b", 1)
		second.Cancel()
		second.Cancel()
		first.Cancel()
		first.Cancel()
		tokens(t, l, -2)
		time.Sleep(time.Minute)
		q.expect("none go 0s", "a go 100ms", "b go 200ms")
		tokens(t, l, 2)
	})
}
