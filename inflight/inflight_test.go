package inflight_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

func fixed(t testing.TB, n int, cfg inflight.Config) *inflight.Limiter {
	t.Helper()
	cfg.Algorithm = limit.Fixed(n)
	l, err := inflight.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func acquire(t testing.TB, l *inflight.Limiter, n int) weir.Permit {
	t.Helper()
	p, err := l.Acquire(t.Context(), n)
	if err != nil {
		t.Fatalf("acquire %d: %v", n, err)
	}
	return p
}

func reason(err error) weir.Reason {
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		return r.Reason
	}
	return 0
}

// after runs f in d, in a bubble.
func after(d time.Duration, f func()) { time.AfterFunc(d, f) }

func TestWaitsForARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{MaxWait: time.Minute})
		began := time.Now()
		first := acquire(t, l, 1)
		after(3*time.Second, func() { first.Release(weir.Success) })
		second := acquire(t, l, 1)
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %v: want 3s", waited)
		}
		second.Release(weir.Success)
		if s := l.Stats(); s.Inflight != 0 || s.Admitted != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{Queue: 1, MaxWait: 2 * time.Second})
		p := acquire(t, l, 1)
		defer p.Release(weir.Success)
		go func() {
			began := time.Now()
			_, err := l.Acquire(t.Context(), 1)
			if waited := time.Since(began); reason(err) != weir.Overdue || waited != 2*time.Second {
				t.Errorf("%v after %v: want overdue after 2s", err, waited)
			}
		}()
		synctest.Wait()
		if _, err := l.Acquire(t.Context(), 1); reason(err) != weir.QueueFull || !errors.Is(err, weir.ErrRejected) {
			t.Errorf("%v: want queue_full", err)
		}
		if _, err := l.Acquire(t.Context(), 2); reason(err) != weir.OverLimit {
			t.Errorf("%v: want over_limit for more units than there are", err)
		}
		if _, ok := l.TryAcquire(1); ok {
			t.Error("TryAcquire overtook a waiter")
		}
		time.Sleep(3 * time.Second)
		if s := l.Stats(); s.Overdue != 1 || s.QueueFull != 1 || s.OverLimit != 2 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Each waiter is overdue at its own instant, by one timer that is armed anew.
func TestEachWaiterHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{MaxWait: 10 * time.Second})
		p := acquire(t, l, 1)
		defer p.Release(weir.Success)
		var waiters sync.WaitGroup
		for i := range 5 {
			after(time.Duration(i)*time.Second, func() {
				waiters.Go(func() {
					began := time.Now()
					_, err := l.Acquire(t.Context(), 1)
					if waited := time.Since(began); reason(err) != weir.Overdue || waited != 10*time.Second {
						t.Errorf("waiter %d: %v after %v: want overdue after 10s", i, err, waited)
					}
				})
			})
		}
		time.Sleep(time.Minute)
		waiters.Wait()
	})
}

func TestCancelledWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 3, inflight.Config{MaxWait: -1})
		p := acquire(t, l, 2)
		defer p.Release(weir.Success)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() {
			began := time.Now()
			if _, err := l.Acquire(ctx, 2); err != context.DeadlineExceeded || time.Since(began) != 5*time.Second {
				t.Errorf("%v after %v: want the context's own error after 5s", err, time.Since(began))
			}
		}()
		synctest.Wait()
		began := time.Now()
		small := acquire(t, l, 1) // held back by the larger one before it
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("waited %v: want 5s", waited)
		}
		small.Release(weir.Success)
	})
}

func TestContextThatHasEnded(t *testing.T) {
	l := fixed(t, 1, inflight.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Acquire(ctx, 1); err != context.Canceled {
		t.Errorf("%v: want canceled, though there is room", err)
	}
}

// A waiter that has been cancelled, and granted a unit before it could leave,
// gives the unit back.
func TestGrantAfterCancel(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			l := fixed(t, 1, inflight.Config{MaxWait: -1})
			p := acquire(t, l, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if p, err := l.Acquire(ctx, 1); err == nil {
					p.Release(weir.Success)
				} else if err != context.Canceled {
					t.Error(err)
				}
			}()
			synctest.Wait()
			cancel()
			p.Release(weir.Success) // before the waiter has run, mostly
			synctest.Wait()
			if s := l.Stats(); s.Inflight != 0 || s.Waiting != 0 {
				t.Fatalf("%+v: a unit is lost", s)
			}
		})
	}
}

// Whatever the scheduler makes of it, nothing is lost.
func TestStorm(t *testing.T) {
	l := fixed(t, 3, inflight.Config{Queue: 5, MaxWait: time.Millisecond})
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for j := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if j%3 == 0 {
					go cancel()
				}
				if p, err := l.Acquire(ctx, 1+i%3); err == nil {
					p.Release(weir.Success)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	if s := l.Stats(); s.Inflight != 0 || s.Waiting != 0 {
		t.Errorf("%+v: something is lost", s)
	}
}

func TestSetLimitWakesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 0, inflight.Config{})
		if _, err := l.Acquire(t.Context(), 1); reason(err) != weir.OverLimit {
			t.Errorf("%v: a limit of zero admits nothing", err)
		}
		l.SetLimit(1)
		held := acquire(t, l, 1)
		var mu sync.Mutex
		var order []int
		for i := range 4 {
			go func() {
				p := acquire(t, l, 1)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				p.Release(weir.Success)
			}()
			synctest.Wait() // so that they queue in order
		}
		l.SetLimit(2)
		time.Sleep(time.Second)
		held.Release(weir.Success)
		if want := []int{0, 1, 2, 3}; !slices.Equal(order, want) {
			t.Errorf("served %v: want %v", order, want)
		}
	})
}

func TestSetQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{Queue: -1})
		p := acquire(t, l, 1)
		defer p.Release(weir.Success)
		if _, err := l.Acquire(t.Context(), 1); reason(err) != weir.OverLimit {
			t.Errorf("%v: nobody may wait", err)
		}
		l.SetQueue(1, time.Hour)
		began := time.Now()
		after(time.Second, func() { l.SetQueue(1, 3*time.Second) })
		if _, err := l.Acquire(t.Context(), 1); reason(err) != weir.Overdue || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v: want overdue after 3s", err, time.Since(began))
		}
		if queue, maxWait := l.Queue(); queue != 1 || maxWait != 3*time.Second {
			t.Errorf("queue %d, %v", queue, maxWait)
		}
		l.SetQueue(0, 0)
		if queue, maxWait := l.Queue(); queue != inflight.DefaultQueue || maxWait != inflight.DefaultMaxWait {
			t.Errorf("queue %d, %v: want the defaults", queue, maxWait)
		}
	})
}

func TestUseFreesUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 4, inflight.Config{MaxWait: -1})
		large := acquire(t, l, 4)
		after(time.Second, func() { large.Use(1) })
		p := acquire(t, l, 3)
		p.Release(weir.Success)
		large.Release(weir.Success)
		if s := l.Stats(); s.Inflight != 0 {
			t.Errorf("%d in flight: want 0", s.Inflight)
		}
	})
}

func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alg, err := limit.NewAIMD(limit.AIMDConfig{Initial: 2})
		if err != nil {
			t.Fatal(err)
		}
		var l *inflight.Limiter
		var events []inflight.Event
		l, err = inflight.New(inflight.Config{Algorithm: alg, Trace: func(e inflight.Event) {
			l.Stats() // it is called outside the lock
			events = append(events, e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		work := func(o weir.Outcome) {
			p := acquire(t, l, 1)
			time.Sleep(time.Second)
			p.Release(o)
		}
		work(weir.Success)
		work(weir.Success) // a limit's worth
		work(weir.Dropped)
		l.SetLimit(7)
		type change struct {
			at         time.Duration
			was, limit int
			cause      limit.Cause
		}
		var got []change
		for _, e := range events {
			got = append(got, change{e.At, e.Was, e.Limit, e.Cause})
		}
		want := []change{
			{2 * time.Second, 2, 3, limit.Grown}, {3 * time.Second, 3, 2, limit.Dropped}, {3 * time.Second, 2, 7, limit.Set},
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: want %v", got, want)
		}
		if s := events[1].Sample; s.Start != 2*time.Second || s.End != 3*time.Second || s.Inflight != 1 {
			t.Errorf("sample %+v", s)
		}
	})
}

func TestZeroConfig(t *testing.T) {
	l, err := inflight.New(inflight.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s := l.Stats(); s.Limit != 20 {
		t.Errorf("starts at %d: want AIMD's 20", s.Limit)
	}
}

// A permit that was copied and released twice is a bug of the caller. It is
// told, and everybody else goes on.
func TestReleaseOfACopy(t *testing.T) {
	l := fixed(t, 1, inflight.Config{})
	p := acquire(t, l, 1)
	twin := p
	p.Release(weir.Success)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("want a panic")
			}
		}()
		twin.Release(weir.Success)
	}()
	p = acquire(t, l, 1)
	p.Release(weir.Success)
}

func TestNegativeRequest(t *testing.T) {
	l := fixed(t, 1, inflight.Config{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("want a panic")
			}
		}()
		_, _ = l.Acquire(t.Context(), -1)
	}()
	p := acquire(t, l, 1)
	p.Release(weir.Success)
}

func TestNoAllocations(t *testing.T) {
	check := func(name string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations: want none", name, n)
		}
	}
	for name, alg := range map[string]limit.Algorithm{"fixed": limit.Fixed(1), "aimd": nil} {
		l, err := inflight.New(inflight.Config{Algorithm: alg, Queue: -1})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		check(name+" admits", func() {
			p, err := l.Acquire(ctx, 1)
			if err != nil {
				t.Error(err)
			}
			p.Release(weir.Success)
		})
		check(name+" tries", func() {
			p, ok := l.TryAcquire(1)
			if !ok {
				t.Error("refused")
			}
			p.Release(weir.Dropped)
		})
		for l.Stats().Inflight < l.Stats().Limit {
			acquire(t, l, 1)
		}
		check(name+" refuses", func() {
			if _, err := l.Acquire(ctx, 1); err == nil {
				t.Error("admitted")
			}
		})
		check(name+" refuses a try", func() {
			if _, ok := l.TryAcquire(1); ok {
				t.Error("admitted")
			}
		})
	}
}
