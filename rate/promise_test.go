package rate_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/rate"
)

// What a promise kept back, and a full bucket would have lost, does not come
// back on top of a burst.
func TestWhatIsKeptBackFlowsOver(t *testing.T) {
	for _, burst := range []int{3, 10, 100, 1000} {
		l := rate.NewLimiter(1, burst)
		first := l.ReserveN(start, burst)
		later := l.ReserveN(start, burst/2)
		first.CancelAt(start)
		at := start.Add(later.DelayFrom(start) - time.Millisecond)
		n := 0
		drain := func() {
			for l.AllowN(at, 1) {
				n++
			}
		}
		drain()
		later.CancelAt(at)
		drain()
		if n > burst {
			t.Errorf("%d at once: want at most %d", n, burst)
		}
	}
}

// Any number of reservations can be open; those cancelled come back.
func TestManyReservations(t *testing.T) {
	for _, many := range []int{1024, 1025, 5000} {
		l := rate.NewLimiter(1, 1)
		l.AllowN(start, 1)
		var rs []*rate.Reservation
		for range many {
			rs = append(rs, l.ReserveN(start, 1))
		}
		for i := many - 1; i >= many-500; i-- {
			rs[i].CancelAt(start)
		}
		if got := l.TokensAt(start); got != float64(500-many) {
			t.Errorf("%d reserved, 500 of them cancelled: %v tokens", many, got)
		}
	}
}

// A promise that is kept does not take with it what others gave back.
func TestKeptPromiseForgetsNothing(t *testing.T) {
	l := rate.NewLimiter(1, 1)
	l.AllowN(start, 1)
	l.ReserveN(start, 1) // it acts after a second
	b, c := l.ReserveN(start, 1), l.ReserveN(start, 1)
	b.CancelAt(start)
	at := start.Add(1500 * time.Millisecond)
	c.CancelAt(at)
	if got := l.TokensAt(at); got != 0.5 {
		t.Errorf("%v tokens: want 0.5", got)
	}
}

// What was had for nothing, without a limit, is not given back.
func TestNothingComesBackFromNoLimit(t *testing.T) {
	drain := func(l *rate.Limiter) (n int) {
		for l.Allow() {
			n++
		}
		return n
	}
	l := rate.NewLimiter(rate.Inf, 10)
	p, err := l.Acquire(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	r := l.Reserve()
	l.SetLimit(1e-6)
	if n := drain(l); n != 10 {
		t.Errorf("%d at first: want the burst", n)
	}
	p.Use(0)
	r.Cancel()
	if n := drain(l); n != 0 {
		t.Errorf("%d came back", n)
	}
	p.Release(weir.Ignored)
}

// A Limiter made in a bubble works outside it: it keeps no timer that it does
// not need.
func TestBubbles(t *testing.T) {
	l := rate.NewLimiter(1000, 1)
	wait := func(ctx context.Context) {
		for range 3 {
			if err := l.Wait(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	wait(t.Context())
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			l = rate.NewLimiter(1000, 1)
			wait(t.Context())
			l.SetLimit(1)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if err := l.Wait(ctx); err != context.Canceled {
				t.Error(err)
			}
			l.SetLimit(1000)
			time.Sleep(time.Second)
		})
		wait(t.Context())
	}
}

// A Limiter that is not used any more is collected, though a call that has left
// waited for a turn that is years away.
func TestLeaversHoldNothing(t *testing.T) {
	leave := func(n int) {
		for range n {
			l := rate.NewLimiter(1e-6, 1)
			l.Allow()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(0, cancel)
			if err := l.Wait(ctx); err != context.Canceled {
				t.Fatal(err)
			}
		}
	}
	leave(100)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	leave(5000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes are left behind", grown)
	}
}

// A change that is told before its time makes the calls that wait sleep until then.
func TestChangeToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLimiter(1, 1)
		l.SetLimitAt(time.Now().Add(2*time.Second), 1e9)
		l.AllowN(time.Now(), 1)
		began := time.Now()
		if err := l.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*time.Second || took > 2*time.Second+time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestRefusedReservationsAllocateNothing(t *testing.T) {
	l := rate.NewLimiter(1, 1)
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() {
		if l.ReserveN(now, 2).OK() {
			t.Error("more than the burst")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
