package rate_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// hardly is a rate at which nothing comes in during a test.
const hardly = rate.Limit(1e-6)

func TestAllowAllocatesNothing(t *testing.T) {
	const many = 1 << 20
	for name, tt := range map[string]struct {
		l    *rate.Limiter
		want bool
	}{
		"allowed":       {rate.NewLimiter(hardly, many), true},
		"denied":        {rate.NewLimiter(hardly, 0), false},
		"without limit": {rate.NewLimiter(rate.Inf, 0), true},
		"zero":          {new(rate.Limiter), false},
	} {
		check := func(what string, f func() bool) {
			t.Helper()
			allocateNothing(t, name+": "+what, func() {
				if f() != tt.want {
					t.Errorf("%s: %s: %v", name, what, !tt.want)
				}
			})
		}
		l, now := tt.l, time.Now()
		check("Allow", l.Allow)
		check("AllowN", func() bool { return l.AllowN(now, 2) })
		check("Take", func() bool { return l.Take(3).OK })
		check("Reserve", func() bool { return l.Reserve().OK() })
		check("ReserveN", func() bool { return l.ReserveN(now, 3).OK() })
		if tt.want { // the text of a refusal has figures
			check("Wait", func() bool { return l.Wait(t.Context()) == nil })
			check("WaitN", func() bool { return l.WaitN(t.Context(), 3) == nil })
		}
		check("Acquire", func() bool { p, err := l.Acquire(t.Context(), 3); p.Release(weir.Success); return err == nil })
		check("Tokens", func() bool { return l.Tokens() >= 0 && tt.want })
	}
}

// What is given back, or must wait a while, allocates nothing either.
func TestReservationAllocatesNothing(t *testing.T) {
	l := rate.NewLimiter(hardly, 5)
	l.AllowN(time.Now(), 5)
	allocateNothing(t, "reserve and cancel", func() {
		r := l.Reserve()
		if !r.OK() || r.Delay() == 0 {
			t.Errorf("%v, %v: want a delay", r.OK(), r.Delay())
		}
		r.Cancel()
	})
	allocateNothing(t, "settle", func() {
		if l.Settle(l.Settle(l.Settle(0, 4), 2), 0) != 0 {
			t.Error("want nothing charged in the end")
		}
	})
	allocateNothing(t, "refuse", func() {
		if l.ReserveN(time.Now(), 6).OK() {
			t.Error("want it refused")
		}
	})
	if tokens := l.Tokens(); tokens > 0.001 || tokens < 0 {
		t.Errorf("%v tokens: want none", tokens)
	}
}

func TestRefusalAllocatesNothing(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	soon, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, tt := range map[string]struct {
		cfg  rate.Config
		ctx  context.Context
		n    int
		want string
	}{
		"over the burst":     {rate.Config{}, t.Context(), 3, "over_burst"},
		"too late":           {rate.Config{}, soon, 1, "too_late"},
		"later than MaxWait": {rate.Config{MaxWait: time.Minute}, t.Context(), 1, "over_rate"},
		"nobody waits":       {rate.Config{Queue: -1}, t.Context(), 1, "over_rate"},
		"the queue is full":  {rate.Config{Queue: 1}, t.Context(), 1, "queue_full"},
		"ended":              {rate.Config{}, ended, 1, "cancel"},
	} {
		l := rate.New(gcra.Per(1, 1000*time.Hour, 2), tt.cfg)
		l.AllowN(time.Now(), 2)
		if tt.cfg.Queue == 1 {
			defer wait(t, l)()
		}
		allocateNothing(t, name, func() {
			if _, err := l.Acquire(tt.ctx, tt.n); what(err) != tt.want {
				t.Errorf("%s: %v: want %s", name, err, tt.want)
			}
		})
	}
}

func allocateNothing(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Errorf("%s: %v allocations: want none", what, n)
	}
}

// wait starts a call that waits until leave.
func wait(t *testing.T, l *rate.Limiter) (leave func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	before := l.Waiting()
	go func() {
		defer close(done)
		if err := l.Wait(ctx); err != context.Canceled {
			t.Errorf("the waiter: %v", err)
		}
	}()
	for l.Waiting() == before {
		runtime.Gosched()
	}
	return func() { cancel(); <-done }
}
