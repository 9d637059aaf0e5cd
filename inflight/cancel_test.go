package inflight_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// A request with a context that has ended is not admitted, though there is room,
// and is not counted.
func TestContextThatHasEnded(t *testing.T) {
	l := fixed(t, 1, inflight.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Acquire(ctx, 1); err != context.Canceled {
		t.Errorf("%v: want canceled, bare", err)
	}
	if s := l.Stats(); s.Inflight != 0 || requests(s) != 0 {
		t.Errorf("%+v: want nothing", s)
	}
}

func TestErrorIsTheContextsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{MaxWait: -1})
		p := acquire(t, l, 1)
		defer p.Release(weir.Success)
		canceled, cancelWith := context.WithCancelCause(t.Context())
		after(time.Second, func() { cancelWith(errors.New("a reason that is the caller's own business")) })
		if _, err := l.Acquire(canceled, 1); err != context.Canceled {
			t.Errorf("%v: want canceled, bare", err)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(late, 1); err != context.DeadlineExceeded {
			t.Errorf("%v: want deadline exceeded, bare", err)
		}
	})
}

// spied is a fixed limit that runs a hook whenever it is asked, which is under
// the Limiter's lock.
type spied struct {
	limit.Algorithm
	hook func()
}

func (s spied) Limit() int { s.hook(); return s.Algorithm.Limit() }

// The interleaving that loses a unit if it can be lost: the context ends, and
// before the waiter comes to the lock, its answer is given. The hook ends the
// context under the lock, just before the answer, so that it is always so.
func TestAnswerAfterCancel(t *testing.T) {
	for name, ends := range map[string]func(held *weir.Permit){
		"a grant":   func(held *weir.Permit) { held.Release(weir.Success) },
		"a refusal": func(*weir.Permit) { time.Sleep(time.Minute) }, // longer than MaxWait
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var armed atomic.Bool
				l := newLimiter(t, inflight.Config{MaxWait: time.Second, Algorithm: spied{limit.Fixed(1), func() {
					if armed.Load() {
						cancel()
					}
				}}})
				held := acquire(t, l, 1)
				go func() {
					if _, err := l.Acquire(ctx, 1); err != context.Canceled {
						t.Errorf("%v: want canceled", err)
					}
				}()
				synctest.Wait()
				armed.Store(true)
				ends(&held)
				synctest.Wait()
				held.Release(weir.Success)
				s := l.Stats()
				if s.Inflight != 0 || s.Waiting != 0 || s.Cancelled != 0 || requests(s) != 2 {
					t.Errorf("%+v: want an answer to both, and nothing lost", s)
				}
				if s.Outcomes[weir.Success] != 1 || s.Outcomes[weir.Success]+s.Outcomes[weir.Ignored] != s.Admitted {
					t.Errorf("%+v: want the unit that nobody wanted to be ignored", s)
				}
			})
		})
	}
}

// Whatever the scheduler makes of it: never more in flight than the limit, and
// nothing is lost.
func TestStorm(t *testing.T) {
	const most, callers, calls = 3, 16, 500
	l := fixed(t, most, inflight.Config{Queue: 5, MaxWait: time.Millisecond})
	var inUse, admitted atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			n := 1 + i%3
			for j := range calls {
				ctx, cancel := context.WithCancel(t.Context())
				if j%3 == 0 {
					go cancel()
				}
				if p, err := l.Acquire(ctx, n); err == nil {
					if inUse.Add(int64(n)) > most {
						t.Error("more in flight than the limit")
					}
					admitted.Add(1)
					runtime.Gosched()
					inUse.Add(int64(-n))
					p.Release(weir.Success)
				}
				cancel()
			}
		})
	}
	all.Wait()
	s := l.Stats()
	if s.Inflight != 0 || s.Waiting != 0 || s.Outcomes[weir.Success]+s.Outcomes[weir.Ignored] != s.Admitted {
		t.Errorf("%+v: something is lost", s)
	}
	if s.Outcomes[weir.Success] != uint64(admitted.Load()) || requests(s) > callers*calls {
		t.Errorf("%+v: %d were admitted of %d", s, admitted.Load(), callers*calls)
	}
}

// No request is forgotten: without a deadline, all waiting requests are served
// while the bounds change and the Stats are read.
func TestStormOfChanges(t *testing.T) {
	l := fixed(t, 1, inflight.Config{Queue: 1000, MaxWait: -1})
	var callers, operators sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 500 {
				p, err := l.Acquire(context.Background(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				p.Use(2)
				l.Queue()
				runtime.Gosched()
				p.Release(weir.Success)
			}
		})
	}
	done := make(chan struct{})
	operators.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				l.SetAlgorithm(limit.Fixed(1 + i%4))
				l.SetQueue(1000+i%2, -1)
				l.Stats()
				if p, ok := l.TryAcquire(context.Background(), 1); ok {
					p.Release(weir.Ignored)
				}
				runtime.Gosched()
			}
		}
	})
	callers.Wait()
	close(done)
	operators.Wait()
	if s := l.Stats(); s.Inflight != 0 || s.Waiting != 0 || s.Outcomes[weir.Success] != 8*500 {
		t.Errorf("%+v: something is lost", s)
	}
}
