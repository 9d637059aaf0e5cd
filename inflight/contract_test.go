package inflight_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

var _ weir.Limiter = (*inflight.Limiter)(nil)

func TestZeroConfig(t *testing.T) {
	l := newLimiter(t, inflight.Config{})
	if s := l.Stats(); s.Limit != 10 {
		t.Errorf("starts at %d: want Auto's 10", s.Limit)
	}
	if queue, maxWait := l.Queue(); queue != inflight.DefaultQueue || maxWait != inflight.DefaultMaxWait {
		t.Errorf("queue %d, %v: want the defaults", queue, maxWait)
	}
}

// By default, no request waits for longer than half a second, and the queue is in
// order until it has lasted for a second. Then the newest request goes first, two
// may wait, and all but the last are rejected after 50 ms.
func TestDefaultQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(1)})
		held := acquire(t, l, 1)
		q := newLine(t, l)
		for _, who := range []string{"a", "b", "c", "d"} { // at 0, 0.3, 0.6 and 0.9 s
			q.join(who, 1, 30*time.Millisecond)
			time.Sleep(300 * time.Millisecond)
		}
		q.join("e", 1, 30*time.Millisecond) // at 1.2 s
		q.join("f", 1, 30*time.Millisecond)
		q.join("g", 1, 30*time.Millisecond)
		held.Release(weir.Success)
		time.Sleep(time.Second)
		q.expect("a overdue 500ms", "b overdue 800ms", "c overdue 1s", "d overdue 1.2s",
			"e overdue 1.2s", "f admit 1.23s", "g admit 1.2s")
	})
}

// A broken contract is a bug of the caller: it panics, and other callers go on,
// with a free lock and correct counts.
func TestBrokenContract(t *testing.T) {
	for name, broken := range map[string]func(l *inflight.Limiter, twin *weir.Permit){
		"a copy is released, too":   func(_ *inflight.Limiter, twin *weir.Permit) { twin.Release(weir.Success) },
		"a copy charges after that": func(_ *inflight.Limiter, twin *weir.Permit) { twin.Use(2) },
		"a negative request":        func(l *inflight.Limiter, _ *weir.Permit) { _, _ = l.Acquire(context.Background(), -1) },
		"a negative try":            func(l *inflight.Limiter, _ *weir.Permit) { _, _ = l.TryAcquire(context.Background(), -1) },
	} {
		t.Run(name, func(t *testing.T) {
			l := fixed(t, 1, inflight.Config{})
			p := acquire(t, l, 1)
			twin := copied(&p)
			p.Release(weir.Success)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("want a panic")
					}
				}()
				broken(l, &twin)
			}()
			p = acquire(t, l, 1)
			p.Release(weir.Success)
			if s := l.Stats(); s.Inflight != 0 || s.Outcomes[weir.Success] != 2 || requests(s) != 2 {
				t.Errorf("%+v: want two that came and went", s)
			}
		})
	}
}

// The hot paths allocate nothing: to admit at once, and above all to refuse.
func TestNoAllocations(t *testing.T) {
	for name, alg := range map[string]func() limit.Algorithm{
		"fixed": func() limit.Algorithm { return limit.Fixed(2) },
		"aimd":  func() limit.Algorithm { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, inflight.Config{Algorithm: alg(), Queue: 1, MaxWait: -1})
			ctx := t.Context()
			hold := func(o weir.Outcome) {
				p, err := l.Acquire(ctx, 1)
				if err != nil {
					t.Error(err)
				}
				p.Use(2)
				p.Release(o)
			}
			allocateNothing(t, "admit", func() { hold(weir.Success) })
			allocateNothing(t, "admit, and drop", func() { hold(weir.Dropped) })
			allocateNothing(t, "admit a try", func() {
				p, ok := l.TryAcquire(context.Background(), 1)
				if !ok {
					t.Error("refused")
				}
				p.Release(weir.Ignored)
			})
			l.SetAlgorithm(limit.Fixed(1))
			held := acquire(t, l, 1)
			refuse := func(n int, want weir.Reason) func() {
				return func() {
					if _, err := l.Acquire(ctx, n); reason(err) != want {
						t.Errorf("%v: want %v", err, want)
					}
				}
			}
			allocateNothing(t, "refuse, over the limit", refuse(2, weir.OverLimit))
			allocateNothing(t, "refuse a try", func() {
				if _, ok := l.TryAcquire(context.Background(), 1); ok {
					t.Error("admitted")
				}
			})
			leave := wait(t, l)
			allocateNothing(t, "refuse, the queue is full", refuse(1, weir.QueueFull))
			leave()
			held.Release(weir.Success)
		})
	}
}

func allocateNothing(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Errorf("%s: %v allocations: want none", what, n)
	}
}

// wait puts a waiter into the queue until leave.
func wait(t *testing.T, l *inflight.Limiter) (leave func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := l.Acquire(ctx, 1); err != context.Canceled {
			t.Errorf("the waiter: %v", err)
		}
	}()
	for l.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	return func() { cancel(); <-done }
}

// Panics because of a caller name the package that the caller knows.
func TestPanicsNameThePackage(t *testing.T) {
	l := fixed(t, 1, inflight.Config{})
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "inflight: ") {
			t.Errorf("panic %q: want the prefix inflight", got)
		}
	}()
	_, _ = l.Acquire(t.Context(), -1)
}
