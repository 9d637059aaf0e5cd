package rate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

func TestErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the caller's own business"))
		soon, stop := context.WithTimeout(t.Context(), tick)
		defer stop()
		for name, tt := range map[string]struct {
			cfg   rate.Config
			ctx   context.Context
			n     int
			want  weir.Reason
			after time.Duration
		}{
			"over the burst":              {rate.Config{}, t.Context(), 3, weir.OverBurst, weir.Never},
			"over the burst, ended":       {rate.Config{}, ended, 3, weir.OverBurst, weir.Never},
			"too late":                    {rate.Config{}, soon, 2, weir.TooLate, 2 * tick},
			"later than MaxWait":          {rate.Config{MaxWait: tick}, t.Context(), 2, weir.OverRate, 2 * tick},
			"negative MaxWait: no wait":   {rate.Config{MaxWait: -1}, soon, 2, weir.OverRate, 2 * tick},
			"later than both, ctx first":  {rate.Config{MaxWait: tick + 1}, soon, 2, weir.TooLate, 2 * tick},
			"later than both, ctx second": {rate.Config{MaxWait: tick - 1}, soon, 2, weir.OverRate, 2 * tick},
			"nobody waits":                {rate.Config{Queue: -1}, t.Context(), 1, weir.OverRate, tick},
			"nobody waits, deadline":      {rate.Config{Queue: -1}, soon, 2, weir.OverRate, 2 * tick},
		} {
			l := rate.New(gcra.Per(10, time.Second, 2), tt.cfg)
			l.AllowN(time.Now(), 2)
			asked := time.Now()
			err := l.WaitN(tt.ctx, tt.n)
			r, ok := errors.AsType[*weir.Rejection](err)
			if !ok || r.Reason != tt.want || r.RetryAfter != tt.after {
				t.Errorf("%s: %+v: want %v, %v", name, err, tt.want, tt.after)
			}
			if !errors.Is(err, weir.ErrRejected) || errors.Is(err, context.DeadlineExceeded) != (tt.want == weir.TooLate) {
				t.Errorf("%s: %v is of the wrong kind", name, err)
			}
			if time.Since(asked) != 0 {
				t.Errorf("%s: told after %v: want it at once", name, time.Since(asked))
			}
			if tokens(t, l, 0); l.Waiting() != 0 {
				t.Errorf("%s: %d wait", name, l.Waiting())
			}
		}
		l := rate.NewLimiter(10, 2)
		if err := l.Wait(ended); err != context.Canceled {
			t.Errorf("%v: want the context's own error, bare", err)
		}
		tokens(t, l, 2)
		l.AllowN(time.Now(), 2)
		canceled, cancelWith := context.WithCancelCause(t.Context())
		time.AfterFunc(tick/2, func() { cancelWith(errors.New("the caller's own business")) })
		if err := l.Wait(canceled); err != context.Canceled {
			t.Errorf("%v: want the context's own error, bare", err)
		}
		tokens(t, l, 0.5)
	})
}

// The texts of refusals have their figures.
func TestErrorTexts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		soon, stop := context.WithTimeout(t.Context(), tick)
		defer stop()
		for _, tt := range []struct {
			quota gcra.Quota
			cfg   rate.Config
			ctx   context.Context
			n     int
			want  string
		}{
			{gcra.Per(10, time.Second, 1), rate.Config{}, soon, 2, "rate: Wait(n=2) exceeds limiter's burst 1"},
			{gcra.Per(1, time.Second, 1), rate.Config{}, soon, 1, "rate: Wait(n=1) would exceed context deadline: its turn comes in 1s"},
			{gcra.Per(0, time.Second, 1), rate.Config{}, soon, 1, "rate: Wait(n=1) would exceed context deadline: its turn never comes"},
			{gcra.Per(1, time.Second, 1), rate.Config{MaxWait: tick}, t.Context(), 1, "rate: Wait(n=1) would have to wait for too long: its turn comes in 1s"},
			{gcra.Per(1, time.Second, 1), rate.Config{Queue: -1}, soon, 1, "rate: Wait(n=1) would have to wait for too long: its turn comes in 1s"},
		} {
			l := rate.New(tt.quota, tt.cfg)
			l.Allow()
			if err := l.WaitN(tt.ctx, tt.n); err == nil || err.Error() != tt.want {
				t.Errorf("%v: want %s", err, tt.want)
			}
		}
		l := rate.New(gcra.Per(1, time.Second, 1), rate.Config{Queue: 1})
		l.Allow()
		defer wait(t, l)()
		if err, want := l.Wait(t.Context()), "rate: Wait(n=1) finds the queue full: its turn comes in 2s"; err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
	})
}

// A turn at the very deadline is in time, whichever of the two timers is heard
// first.
func TestTurnAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 1)
		l.Allow()
		q := newLine(t, l)
		q.joinWithin(tick-1, "early", 1)
		q.joinWithin(tick, "just", 1)
		time.Sleep(tick)
		q.expect("early too_late 0s", "just go 100ms")
		tokens(t, l, 0)
		for range 200 {
			q := newLine(t, l)
			q.joinWithin(tick, "just", 1)
			time.Sleep(tick)
			q.expect("just go 100ms")
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.New(gcra.Per(10, time.Second, 1), rate.Config{Queue: 2})
		q := newLine(t, l)
		q.join("none", 1)
		leave := q.join("a", 1)
		q.join("b", 1)
		q.join("c", 1)
		q.join("d", 0) // would have to wait too, in debt
		tokens(t, l, -2)
		leave()
		q.join("e", 1)
		q.join("f", 1)
		time.Sleep(time.Minute)
		q.expect("a cancel 0s", "c queue_full 0s", "d queue_full 0s", "f queue_full 0s", "none go 0s",
			"b go 100ms", "e go 200ms")
		for range 5 {
			if err := l.Wait(t.Context()); err != nil {
				t.Errorf("one after the other: %v", err)
			}
		}
	})
}

func TestMaxWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.New(gcra.Per(10, time.Second, 1), rate.Config{MaxWait: 2 * tick})
		q := newLine(t, l)
		for _, who := range []string{"none", "a", "b", "c"} {
			q.join(who, 1)
		}
		time.Sleep(tick)
		q.join("d", 1)
		time.Sleep(time.Minute)
		q.expect("c over_rate 0s", "none go 0s", "a go 100ms", "b go 200ms", "d go 300ms")
	})
}

func TestDefaultQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(0.001, 1)
		ctx, leave := context.WithCancel(t.Context())
		l.Allow()
		for range rate.DefaultQueue {
			go func() { _ = l.Wait(ctx) }()
		}
		synctest.Wait()
		if got := what(l.Wait(ctx)); got != "queue_full" || l.Waiting() != rate.DefaultQueue {
			t.Errorf("%s, %d wait: want it full", got, l.Waiting())
		}
		leave()
		synctest.Wait()
		if tokens(t, l, 0); l.Waiting() != 0 {
			t.Errorf("%d wait", l.Waiting())
		}
	})
}
