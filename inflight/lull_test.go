package inflight_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// busy makes a limiter time one admission in 64.
func busy(t *testing.T, l *inflight.Limiter) {
	t.Helper()
	for range 10_000 {
		p := acquire(t, l, 1)
		p.Release(weir.Success)
	}
}

// After many and then a while without any, work that was not timed is held as
// if it had begun after that while.
func TestHoldAfterLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1000, inflight.Config{})
		all := func(work time.Duration, o weir.Outcome) {
			var wg sync.WaitGroup
			for range 1000 {
				wg.Go(func() {
					p := acquire(t, l, 1)
					time.Sleep(work)
					p.Release(o)
				})
			}
			wg.Wait()
		}
		for range 20 {
			all(time.Second, weir.Success)
		}
		time.Sleep(time.Minute)
		all(100*time.Millisecond, outcome.TimedOut)
		if s := l.Stats(); s.Held < 990 {
			t.Errorf("%+v: want all held, which take a second and were abandoned after a tenth", s)
		}
		time.Sleep(2 * time.Second)
		if s := l.Stats(); s.Held != 0 {
			t.Errorf("%+v: want the holds to be over", s)
		}
	})
}

// After a lull, failures that take at least as long as a success are soon seen.
func TestDropsAfterLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, inflight.Config{})
		for range 200 {
			p := acquire(t, l, 1)
			time.Sleep(time.Millisecond)
			p.Release(weir.Success)
		}
		busy(t, l)
		time.Sleep(time.Hour)
		before := l.Stats().Limit
		n := 0
		for ; n < 100 && l.Stats().Limit >= before; n++ {
			p := acquire(t, l, 1)
			time.Sleep(time.Second)
			p.Release(weir.Dropped)
		}
		if n > 8 { // of those before the lull some count, too
			t.Errorf("the limit falls after %d drops: want 8 at most", n)
		}
	})
}

// A lull does not count as slow work: afterwards no request is TooLate without
// reason.
func TestNobodyIsTooLateAfterLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 2, inflight.Config{})
		for range 100 {
			p := acquire(t, l, 1)
			time.Sleep(10 * time.Millisecond)
			p.Release(weir.Success)
		}
		busy(t, l)
		large := acquire(t, l, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := l.Acquire(ctx, 1); err == nil {
			t.Fatal("admitted beyond the limit")
		}
		large.Release(weir.Success)
		time.Sleep(10 * time.Minute)
		busy(t, l)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					p, err := l.Acquire(ctx, 1)
					if err != nil {
						t.Errorf("%v, with 5 s left for 20 ms", err)
					}
					time.Sleep(10 * time.Millisecond)
					p.Release(weir.Success)
					cancel()
				}
			})
		}
		wg.Wait()
	})
}

// kinds counts samples of quick and of slow work.
type kinds struct {
	limit.Controller
	quick, slow int
}

func (*kinds) Limit() int { return 1000 }
func (k *kinds) Observe(s limit.Sample) limit.Cause {
	if s.End-s.Start > 500*time.Microsecond {
		k.slow++
	} else {
		k.quick++
	}
	return limit.Kept
}

// Callers that take turns are all sampled.
func TestSamplesAreNotALattice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kinds{Controller: controller(t)}
		l := newLimiter(t, inflight.Config{Algorithm: k})
		for i := range 200_000 {
			quick, slow := acquire(t, l, 1), acquire(t, l, 1)
			quick.Release(weir.Success)
			if i%50 == 0 {
				time.Sleep(time.Millisecond)
			}
			slow.Release(weir.Success)
		}
		if k.slow < 30 {
			t.Errorf("%d: of 4,000 that were slow, about one in 64 is to be seen", k.slow)
		}
	})
}

// Misuse by one caller does not hang the others.
func TestMisuseDoesNotHang(t *testing.T) {
	mustPanic := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: want a panic", what)
			}
		}()
		f()
	}
	l := fixed(t, 4, inflight.Config{})
	mustPanic("no algorithm", func() { l.SetAlgorithm(nil) })
	busy(t, l)
	for range 200 { // timed or not
		p := acquire(t, l, 1)
		twin := copied(&p)
		p.Release(weir.Success)
		mustPanic("a copy is released, too", func() { twin.Release(weir.Success) })
	}
	held := acquire(t, l, 4)
	mustPanic("a negative number of units", func() { l.TryAcquire(context.Background(), -1) })
	if _, err := l.Acquire(t.Context(), 5); !errors.Is(err, weir.ErrRejected) {
		t.Errorf("%v: want a rejection", err)
	}
	held.Release(weir.Success)
	if s := l.Stats(); s.Inflight != 0 {
		t.Errorf("%+v: want nothing in flight", s)
	}
}
