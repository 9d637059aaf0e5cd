package codel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/codel"
)

func Example() {
	lock := codel.New(codel.Options{
		MaxPending:     100,
		MaxOutstanding: 10,
		TargetLatency:  5 * time.Millisecond,
	})

	serve := func(ctx context.Context) error {
		if err := lock.Acquire(ctx); err != nil {
			return err // codel.Dropped, or the error of ctx
		}
		defer lock.Release()
		return nil // the work
	}

	fmt.Println(serve(context.Background()))
	// Output: <nil>
}

// locks returns both kinds of lock, with the same interface.
func locks(o codel.Options) map[string]locker {
	return map[string]locker{"Lock": codel.New(o), "PLock": priority{codel.NewPriority(o)}}
}

type locker interface {
	Acquire(context.Context) error
	Release()
}

type priority struct{ *codel.PLock }

func (p priority) Acquire(ctx context.Context) error { return p.PLock.Acquire(ctx, 1000) }

// result acquires in a goroutine; the function that it returns waits until all
// goroutines are blocked and returns the error, or errWaiting.
func result(ctx context.Context, l locker) func() error {
	done := make(chan error, 1)
	go func() { done <- l.Acquire(ctx) }()
	return func() error {
		synctest.Wait()
		select {
		case err := <-done:
			return err
		default:
			return errWaiting
		}
	}
}

var errWaiting = errors.New("waiting")

func check(t *testing.T, what string, got, want error) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v: want %v", what, got, want)
	}
}

// each runs a test on a new lock of each kind, in virtual time.
func each(t *testing.T, o codel.Options, f func(t *testing.T, l locker)) {
	t.Helper()
	for name := range locks(o) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, locks(o)[name]) })
		})
	}
}

func TestQueueIsBounded(t *testing.T) {
	each(t, codel.Options{MaxPending: 1, MaxOutstanding: 2, TargetLatency: time.Second}, func(t *testing.T, l locker) {
		check(t, "first", l.Acquire(t.Context()), nil)
		check(t, "second", l.Acquire(t.Context()), nil)
		third := result(t.Context(), l)
		check(t, "third", third(), errWaiting)
		check(t, "fourth", l.Acquire(t.Context()), codel.Dropped)
		l.Release()
		check(t, "third", third(), nil)
		l.Release()
		l.Release()
	})
}

func TestContextEndsTheWait(t *testing.T) {
	each(t, codel.Options{MaxPending: 1, MaxOutstanding: 1, TargetLatency: time.Second}, func(t *testing.T, l locker) {
		check(t, "first", l.Acquire(t.Context()), nil)
		ctx, cancel := context.WithCancel(t.Context())
		second := result(ctx, l)
		check(t, "second", second(), errWaiting)
		cancel()
		check(t, "second", second(), context.Canceled)
		l.Release()
		check(t, "a free place, after the context's end", l.Acquire(ctx), nil)
		l.Release()
	})
}

// A deadline that cannot be met is no reason to drop a caller before it.
func TestDeadlineIsAwaited(t *testing.T) {
	each(t, codel.Options{MaxPending: 9, MaxOutstanding: 1, TargetLatency: time.Second}, func(t *testing.T, l locker) {
		for range 20 { // so that the limiter knows how long work takes
			check(t, "work", l.Acquire(t.Context()), nil)
			time.Sleep(10 * time.Second)
			l.Release()
		}
		check(t, "holder", l.Acquire(t.Context()), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		waiter := result(ctx, l)
		check(t, "waiter", waiter(), errWaiting)
		time.Sleep(time.Second)
		check(t, "waiter", waiter(), context.DeadlineExceeded)
	})
}

func TestSlowQueueIsCutShort(t *testing.T) {
	each(t, codel.Options{MaxPending: 100, MaxOutstanding: 1, TargetLatency: 5 * time.Millisecond}, func(t *testing.T, l locker) {
		check(t, "first", l.Acquire(t.Context()), nil)
		var results []func() error
		for range 50 {
			results = append(results, result(t.Context(), l))
			synctest.Wait()
		}
		for range 5 {
			time.Sleep(10 * time.Millisecond)
			l.Release()
		}
		var admitted, dropped int
		for _, r := range results {
			switch err := r(); err {
			case nil:
				admitted++
			case codel.Dropped:
				dropped++
			}
		}
		if admitted != 5 || dropped < 2 || dropped > 10 {
			t.Errorf("%d admitted, %d dropped: want 5, and a few", admitted, dropped)
		}
		time.Sleep(time.Minute) // all but two of the others are dropped, although no work ends
		for range 3 {
			l.Release()
			synctest.Wait()
		}
	})
}

func TestZeroValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check(t, "zero Lock", new(codel.Lock).Acquire(t.Context()), codel.Dropped)
		check(t, "zero PLock", new(codel.PLock).Acquire(t.Context(), 1), codel.Dropped)
	})
	each(t, codel.Options{}, func(t *testing.T, l locker) {
		check(t, "zero Options", l.Acquire(t.Context()), codel.Dropped)
	})
	each(t, codel.Options{MaxPending: 1}, func(t *testing.T, l locker) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		check(t, "no place at all", l.Acquire(ctx), context.DeadlineExceeded)
	})
	t.Run("MaxPending is negative", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := codel.New(codel.Options{MaxPending: -1, MaxOutstanding: 1, TargetLatency: time.Hour})
			check(t, "first", l.Acquire(t.Context()), nil)
			ctx, cancel := context.WithCancel(t.Context())
			var results []func() error
			for range 2000 {
				results = append(results, result(ctx, l))
			}
			synctest.Wait()
			cancel()
			for _, r := range results {
				check(t, "waiter", r(), context.Canceled)
			}
		})
		defer func() {
			if recover() == nil {
				t.Error("NewPriority: no panic")
			}
		}()
		codel.NewPriority(codel.Options{MaxPending: -1})
	})
}

func TestReleaseWithoutAcquire(t *testing.T) {
	for name, l := range locks(codel.Options{MaxOutstanding: 1}) {
		func() {
			defer func() {
				if got := recover(); got != "lock: bad release" {
					t.Errorf("%s: panic %v", name, got)
				}
			}()
			l.Release()
		}()
		if err := l.Acquire(t.Context()); err != nil {
			t.Errorf("%s: after the panic: %v", name, err)
		}
		if err := l.Acquire(t.Context()); err != codel.Dropped {
			t.Errorf("%s: beyond MaxOutstanding: %v", name, err)
		}
	}
}

func TestPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := codel.NewPriority(codel.Options{MaxPending: 3, MaxOutstanding: 1, TargetLatency: time.Hour})
		check(t, "first", l.Acquire(t.Context(), 0), nil)
		wait := func(p int) func() error {
			r := result(t.Context(), lockerFunc{func(ctx context.Context) error { return l.Acquire(ctx, p) }, l.Release})
			synctest.Wait()
			return r
		}
		low, high, middle := wait(1000), wait(3000), wait(2000)
		check(t, "below all that wait", wait(999)(), codel.Dropped)
		next := wait(1001)
		check(t, "low", low(), codel.Dropped)
		l.Release()
		check(t, "high", high(), nil)
		check(t, "middle", middle(), errWaiting)
		l.Release()
		check(t, "middle", middle(), nil)
		l.Release()
		check(t, "next", next(), nil)
		l.Release()
	})
}

type lockerFunc struct {
	acquire func(context.Context) error
	release func()
}

func (l lockerFunc) Acquire(ctx context.Context) error { return l.acquire(ctx) }
func (l lockerFunc) Release()                          { l.release() }

// A Lock keeps the order of arrival, whatever class its contexts have.
func TestLockIgnoresTheClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := codel.New(codel.Options{MaxPending: 3, MaxOutstanding: 1, TargetLatency: time.Hour})
		check(t, "first", l.Acquire(t.Context()), nil)
		second := result(t.Context(), l)
		check(t, "second", second(), errWaiting)
		third := result(weir.WithClass(t.Context(), weir.Class{Priority: 9}), l)
		check(t, "third", third(), errWaiting)
		l.Release()
		check(t, "second", second(), nil)
		check(t, "third", third(), errWaiting)
		l.Release()
		check(t, "third", third(), nil)
		l.Release()
	})
}

func TestFreePlaceAllocatesNothing(t *testing.T) {
	for name, l := range locks(codel.Options{MaxOutstanding: 1}) {
		if n := testing.AllocsPerRun(100, func() {
			if err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.Release()
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
