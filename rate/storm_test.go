package rate_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// Whatever the scheduler makes of it: of a burst that is never refilled,
// exactly as much is taken as there is. No call is lost, and no token.
func TestStorm(t *testing.T) {
	const burst, callers, calls = 3000, 16, 400
	for name, limits := range map[string][]rate.Limit{
		"nothing comes in":         {0},
		"hardly anything comes in": {1e-5, 2e-5, 5e-6},
		"one or the other":         {0, 1e-5},
	} {
		t.Run(name, func(t *testing.T) {
			l := rate.New(gcra.PerSecond(float64(limits[0]), burst), rate.Config{Queue: 20})
			var taken atomic.Int64
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for j := range calls {
						taken.Add(int64(stormy(t, l, (i+j)%9, 1+j%3)))
					}
				})
			}
			done := make(chan struct{})
			var operator sync.WaitGroup
			operator.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					default:
						l.SetLimit(limits[i%len(limits)])
						l.SetBurst(burst + i%2)
						l.Waiting()
						l.Tokens()
						runtime.Gosched()
					}
				}
			})
			all.Wait()
			close(done)
			operator.Wait()
			l.SetBurst(burst)
			left := burst - float64(taken.Load())
			if got := l.Tokens(); math.Abs(got-left) > 1e-3 || left < 0 || l.Waiting() != 0 {
				t.Errorf("%v tokens, %d wait: want %v, none", got, l.Waiting(), left)
			}
			for l.Allow() {
				left--
			}
			if left != 0 {
				t.Errorf("%v of %d are left: want none", left, burst)
			}
		})
	}
}

// stormy makes a call of some kind for n events, and returns how many have
// happened for good.
func stormy(t *testing.T, l *rate.Limiter, kind, n int) int {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	switch kind {
	case 0:
		if l.AllowN(time.Now(), n) {
			return n
		}
	case 1:
		if l.Take(n).OK {
			return n
		}
	case 2: // leaves, perhaps at the very moment that it is its turn
		go cancel()
		if l.WaitN(ctx, n) == nil {
			return n
		}
	case 3: // changes its mind, now or in a day
		now := time.Now()
		r := l.ReserveN(now, n)
		runtime.Gosched()
		r.CancelAt(now)
	case 4: // acts at once or not at all
		if l.AllowN(time.Now(), n) {
			l.Settle(n, 0)
			runtime.Gosched()
		}
	case 5:
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		if l.WaitN(ctx, n) == nil {
			return n
		}
	case 6:
		go cancel()
		if p, err := l.Acquire(ctx, n); err == nil {
			p.Use(0)
			p.Release(weir.Ignored)
		}
	case 7: // fails, and gives back
		go cancel()
		m := weir.Chain(l, rate.NewLimiter(0, 0))
		if _, err := m.Acquire(ctx, n); err == nil {
			t.Error("want the second to refuse")
		}
	case 8: // changes its mind twice
		now := time.Now()
		r := l.ReserveN(now, n)
		l.Settle(l.Settle(0, n), 0)
		r.CancelAt(now)
		r.CancelAt(now)
	}
	return 0
}

// No call is forgotten: without a context to help them, all calls that wait are
// served, while the limit changes and others leave.
func TestStormOfChanges(t *testing.T) {
	l := rate.New(gcra.Per(1e6, time.Second, 3), rate.Config{})
	var callers, operators sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range 300 {
				if err := l.WaitN(context.Background(), 1+(i+j)%3); err != nil {
					t.Error(err)
					return
				}
			}
		})
		callers.Go(func() {
			for range 300 {
				ctx, cancel := context.WithCancel(context.Background())
				go cancel()
				_ = l.WaitN(ctx, 3)
				cancel()
			}
		})
	}
	done := make(chan struct{})
	operators.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				l.SetLimit(rate.Inf)
				return
			default:
				l.SetLimit([]rate.Limit{1e6, 3e5, 0, 1e7, rate.Inf}[i%5])
				l.SetBurst(3 + i%2)
				runtime.Gosched()
			}
		}
	})
	callers.Wait()
	close(done)
	operators.Wait()
	if l.Waiting() != 0 {
		t.Errorf("%d wait", l.Waiting())
	}
}

// While the limit changes, a burst is taken once, and no call is denied tokens
// that are there.
func TestChangesLoseNothing(t *testing.T) {
	const burst = 200_000
	l := rate.NewLimiter(hardly, burst)
	var callers, operator sync.WaitGroup
	done := make(chan struct{})
	operator.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				l.SetLimit(hardly * rate.Limit(1+i%2))
			}
		}
	})
	calls := []func() bool{
		l.Allow,
		func() bool { return l.Take(1).OK },
		func() bool { return l.Reserve().Delay() == 0 },
		func() bool { return l.Tokens() > 0 && l.Allow() },
	}
	for i := range 8 {
		callers.Go(func() {
			for range burst / 8 {
				if !calls[i%4]() {
					t.Error("denied")
					return
				}
			}
		})
	}
	callers.Wait()
	close(done)
	operator.Wait()
	if l.Allow() {
		t.Errorf("%v tokens: want none", l.Tokens())
	}
}
