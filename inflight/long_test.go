package inflight_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
)

// One long job, however it ends and however little else is known, does not make abandoned
// work count for long: the next callers that give up hold no unit for longer than a second.
func TestOneLongJobHoldsNobodyUp(t *testing.T) {
	const long = 10 * time.Minute
	endings := map[string]func(l *inflight.Limiter) error{
		"timed out": func(l *inflight.Limiter) error {
			p := acquire(t, l, 1)
			time.Sleep(long)
			p.Abandon(context.DeadlineExceeded)
			return nil
		},
		"left": func(l *inflight.Limiter) error {
			p := acquire(t, l, 1)
			time.Sleep(long)
			p.Abandon(context.Canceled)
			return nil
		},
		"weir.Do that missed its deadline": func(l *inflight.Limiter) error {
			return weir.Do(context.Background(), l, func(context.Context) error {
				time.Sleep(long)
				return context.DeadlineExceeded
			})
		},
		"an hour-long stream": func(l *inflight.Limiter) error {
			p := acquire(t, l, 1)
			time.Sleep(time.Hour)
			p.Release(weir.Success)
			return nil
		},
	}
	for name, end := range endings {
		for _, known := range []int{3, 10, 50, 99, 500} {
			t.Run(fmt.Sprint(name, "/", known), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := fixed(t, 20, inflight.Config{})
					for range known {
						p := acquire(t, l, 1)
						time.Sleep(50 * time.Millisecond)
						p.Release(weir.Success)
					}
					_ = end(l)
					if s := l.Stats(); s.Held != 0 {
						t.Errorf("%+v: want nothing held, for the work is over or has long been", s)
					}
					for range 20 {
						p := acquire(t, l, 1)
						time.AfterFunc(20*time.Millisecond, func() { p.Abandon(context.DeadlineExceeded) })
					}
					time.Sleep(time.Second)
					if s := l.Stats(); s.Inflight != 0 {
						t.Errorf("%+v: want nothing in flight after a second", s)
					}
				})
			})
		}
	}
}

// If the first job of all is a long one, a request with a deadline is not refused as too
// late once a few usual ones have ended.
func TestTheFirstJobIsALongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{})
		for i := range 12 {
			_ = weir.Do(t.Context(), l, func(context.Context) error {
				if i == 0 {
					time.Sleep(10 * time.Minute)
				}
				time.Sleep(50 * time.Millisecond)
				return nil
			})
		}
		p := acquire(t, l, 1)
		time.AfterFunc(50*time.Millisecond, func() { p.Release(weir.Success) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		next, err := l.Acquire(ctx, 1)
		if err != nil {
			t.Errorf("%v: want a permit after 50 ms", err)
		}
		next.Release(weir.Success)
	})
}

// After one long job, during which waiting requests gave up, the next ones are not refused
// as too late.
func TestALongJobWithWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{})
		works := func(p *weir.Permit, d time.Duration) {
			time.Sleep(d)
			p.Release(weir.Success)
		}
		asks := func() (weir.Permit, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return l.Acquire(ctx, 1)
		}
		for range 50 {
			p := acquire(t, l, 1)
			works(&p, 50*time.Millisecond)
		}
		p := acquire(t, l, 1)
		go func() { _, _ = asks() }()
		works(&p, 10*time.Minute)
		for i := range 50 {
			p := acquire(t, l, 1)
			go works(&p, 50*time.Millisecond)
			next, err := asks()
			if err != nil {
				t.Errorf("request %d: %v: want a permit after 50 ms", i, err)
			}
			works(&next, 50*time.Millisecond)
		}
	})
}
