package throttle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/throttle"
)

var _ weir.Limiter = (*throttle.Limiter)(nil)

// book is the book's formula, and no more.
var book = throttle.Config{Window: 2 * time.Minute, Grace: -1, MaxP: 1}

func limiter(t testing.TB, cfg throttle.Config) *throttle.Limiter {
	t.Helper()
	l, err := throttle.New(cfg)
	testrig.Must(t, err)
	return l
}

// closed returns a Limiter that refuses nearly all requests, and
// its Stats.
func closed(t testing.TB) (*throttle.Limiter, throttle.Stats) {
	t.Helper()
	l := limiter(t, book)
	for range 10000 {
		if p, err := l.Acquire(t.Context(), 1); err == nil {
			p.Release(weir.Dropped)
		}
	}
	st := l.Stats()
	if st.Requests != 10000 || st.Accepts != 0 || st.P < 0.9998 || st.Throttled < 9900 {
		t.Fatalf("%+v: want most of it throttled", st)
	}
	return l, st
}

func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		n       int
		outcome weir.Outcome
		use     int

		requests, accepts int
	}{
		{"success is accepted", 1, weir.Success, 1, 1, 1},
		{"so is what says nothing about load", 1, weir.Ignored, 1, 1, 1},
		{"and what nobody knows", 1, 99, 1, 1, 1},
		{"dropped is not", 1, weir.Dropped, 1, 1, 0},
		{"nor what took too long", 1, outcome.TimedOut, 1, 1, 0},
		{"nor what came too late", 1, outcome.Late, 1, 1, 0},
		{"what nobody waited for is no request", 1, outcome.Left, 1, 0, 0},
		{"units do not count", 7, weir.Success, 5, 1, 1},
		{"nor for requests", 7, weir.Dropped, 5, 1, 0},
		{"nor is what a chain gave back", 3, weir.Ignored, 0, 0, 0},
		{"success is, even if it cost nothing", 3, weir.Success, 0, 1, 1},
		{"or never did", 0, weir.Success, 0, 1, 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			l := limiter(t, throttle.Config{})
			p, err := l.Acquire(t.Context(), tt.n)
			testrig.Must(t, err)
			if st := l.Stats(); st != (throttle.Stats{Sent: 1}) {
				t.Errorf("%+v: want no request before it has ended", st)
			}
			p.Use(tt.use)
			p.Release(tt.outcome)
			p.Release(weir.Success) // the first counts
			if st := l.Stats(); st.Requests != tt.requests || st.Accepts != tt.accepts || st.Sent != 1 {
				t.Errorf("%+v: want %d requests, %d accepts", st, tt.requests, tt.accepts)
			}
		})
	}
}

func TestThrottled(t *testing.T) {
	l, st := closed(t)
	sent := uint64(0) // a call in 11,000 is let through, by chance
	for range 1000 {
		if _, err := l.Acquire(t.Context(), 1); err == nil {
			sent++
		} else {
			if !errors.Is(err, weir.ErrRejected) || errors.Is(err, context.DeadlineExceeded) || err.Error() != "rejected: throttled" {
				t.Errorf("%v: want it throttled", err)
			}
			if r, ok := errors.AsType[*weir.Rejection](err); !ok || r.Reason != weir.Throttled || r.RetryAfter != 0 {
				t.Errorf("%+v: want it throttled", r)
			}
		}
	}
	after := l.Stats()
	if after.Requests != st.Requests+1000-int(sent) || after.Throttled != st.Throttled+1000-sent || sent > 100 || after.Sent+after.Throttled != 11000 {
		t.Errorf("%+v: want those refused to count", after)
	}
}

// Two minutes after the backend went away all is forgotten.
func TestWindowPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, st := closed(t)
		time.Sleep(2*time.Minute - 1)
		if got := l.Stats(); got != st {
			t.Errorf("%+v: want %+v", got, st)
		}
		time.Sleep(time.Nanosecond)
		if p, err := l.Acquire(t.Context(), 1); err != nil {
			t.Error(err)
		} else {
			time.Sleep(time.Minute)
			p.Release(weir.Success)
		}
		time.Sleep(time.Minute) // the answer counts from when it came
		if got := l.Stats(); got.Requests != 1 || got.Accepts != 1 || got.P != 0 {
			t.Errorf("%+v: want the accept", got)
		}
	})
}

// A context that has ended is no request.
func TestEnded(t *testing.T) {
	l := limiter(t, throttle.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Acquire(ctx, 1); err != context.Canceled {
		t.Errorf("%v: want the context's error", err)
	}
	if st := l.Stats(); st != (throttle.Stats{}) {
		t.Errorf("%+v: want nothing", st)
	}
}

func TestNegative(t *testing.T) {
	l := limiter(t, throttle.Config{})
	defer func() {
		if recover() == nil || l.Stats().Requests != 0 {
			t.Error("want a panic, and no request")
		}
	}()
	_, _ = l.Acquire(t.Context(), -1)
}

func TestBadConfig(t *testing.T) {
	if l, err := throttle.New(throttle.Config{K: 0.5}); l != nil || err == nil {
		t.Errorf("%v, %v: want an error", l, err)
	}
}

// A limiter behind the throttle that refuses keeps a request from the backend.
func TestChain(t *testing.T) {
	front, behind := limiter(t, throttle.Config{}), limiter(t, throttle.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	both := weir.Chain(front, hook(cancel), behind)
	if _, err := both.Acquire(ctx, 1); err != context.Canceled {
		t.Fatal(err)
	}
	if st := front.Stats(); st != (throttle.Stats{Sent: 1}) {
		t.Errorf("%+v: want no request", st)
	}
}

// A hook is a Limiter that admits all, after a call.
type hook func()

func (h hook) Acquire(context.Context, int) (weir.Permit, error) { h(); return weir.Permit{}, nil }

func TestConcurrentUse(t *testing.T) {
	l := limiter(t, throttle.Config{Window: time.Hour})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				p, err := l.Acquire(t.Context(), 1)
				if err == nil {
					p.Release([]weir.Outcome{weir.Success, weir.Dropped}[i%2])
				}
				l.Stats()
			}
		})
	}
	wg.Wait()
	if st := l.Stats(); st.Requests != 8000 || st.Sent+st.Throttled != 8000 || st.Accepts < 3000 || st.Accepts > 4000 {
		t.Errorf("%+v: want 8000", st)
	}
}

func TestAllocations(t *testing.T) {
	open := limiter(t, throttle.Config{})
	shut, _ := closed(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		what    string
		l       *throttle.Limiter
		ctx     context.Context
		outcome weir.Outcome
	}{
		{"accepted", open, t.Context(), weir.Success},
		{"not accepted", limiter(t, throttle.Config{Grace: 1 << 20}), t.Context(), weir.Dropped},
		{"throttled", shut, t.Context(), weir.Dropped},
		{"ended", open, ended, weir.Success},
	} {
		allocateNothing(t, tt.what, func() {
			p, _ := tt.l.Acquire(tt.ctx, 1)
			p.Release(tt.outcome)
		})
	}
	allocateNothing(t, "Stats", func() { open.Stats() })
}

// A backend that answers slowly while most callers leave does not refuse: every
// request is sent.
func TestSlowAndLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, throttle.Config{})
		var wg sync.WaitGroup
		for i := range 2000 {
			time.Sleep(2 * time.Millisecond)
			wg.Go(func() {
				p, err := l.Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(20 * time.Second)
				if i%4 > 0 {
					p.Release(outcome.Left)
				}
				p.Release(weir.Success)
			})
		}
		wg.Wait()
		if st := l.Stats(); st != (throttle.Stats{Requests: 500, Accepts: 500, Sent: 2000}) {
			t.Errorf("%+v: want all 2000 sent, and 500 of them counted", st)
		}
	})
}

func allocateNothing(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Errorf("%s: %v allocations: want none", what, n)
	}
}

func BenchmarkAcquire(b *testing.B) {
	l := limiter(b, throttle.Config{})
	b.ReportAllocs()
	for b.Loop() {
		p, _ := l.Acquire(b.Context(), 1)
		p.Release(weir.Success)
	}
}
