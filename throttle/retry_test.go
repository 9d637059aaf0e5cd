package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/throttle"
)

func retrier(t testing.TB, cfg throttle.RetryConfig) *throttle.Retrier {
	return retrierOf(t, cfg, nil)
}

func retrierOf(t testing.TB, cfg throttle.RetryConfig, retryable func(error) bool) *throttle.Retrier {
	t.Helper()
	r, err := throttle.NewRetrier(cfg, retryable)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const s = time.Second

func after(d time.Duration) error { return &weir.Rejection{Reason: weir.OverRate, RetryAfter: d} }

var (
	full     error = &weir.Rejection{Reason: weir.QueueFull}
	errNoone       = errors.New("no such user")
)

func TestDo(t *testing.T) {
	type plan struct {
		throttle.RetryConfig
		retryable func(error) bool
	}
	atOnce := plan{RetryConfig: throttle.RetryConfig{Backoff: -1}}
	all := plan{atOnce.RetryConfig, func(error) bool { return true }}
	with := func(f func(*plan)) plan {
		c := atOnce
		f(&c)
		return c
	}
	for _, tt := range []struct {
		rule     string
		cfg      plan
		errs     []error // of the attempts, then none
		timeout  time.Duration
		attempts int
		took     time.Duration
	}{
		{"success is not retried", all, nil, 0, 1, 0},
		{"a rejection is", atOnce, []error{full}, 0, 2, 0},
		{"wrapped, too", atOnce, []error{fmt.Errorf("asking: %w", full)}, 0, 2, 0},
		// "If a request has already failed three times, we let the failure
		// bubble up to the caller."
		{"up to three attempts", atOnce, []error{full, full, full, full}, 0, 3, 0},
		{"or as many as there may be", with(func(c *plan) { c.Attempts = 5 }), []error{full, full, full, full, full, full}, 0, 5, 0},
		{"or just one", with(func(c *plan) { c.Attempts = 1 }), []error{full}, 0, 1, 0},
		{"what says nothing about load is not retried", atOnce, []error{errNoone}, 0, 1, 0},
		{"nor is a missed deadline", atOnce, []error{context.DeadlineExceeded}, 0, 1, 0},
		{"nor what would miss it", atOnce, []error{&weir.Rejection{Reason: weir.TooLate}}, 0, 1, 0},
		{"unless the caller says so", all, []error{context.DeadlineExceeded, errNoone}, 0, 3, 0},
		{"an error that is not retryable ends it", atOnce, []error{full, errNoone, full}, 0, 2, 0},
		{"what is in vain is never retried", all, []error{after(weir.Never)}, 0, 1, 0},
		{"wrapped, too, it is in vain", all, []error{fmt.Errorf("asking: %w", after(weir.Never))}, 0, 1, 0},
		{"nor with a wait that would be added", plan{RetryConfig: throttle.RetryConfig{Backoff: time.Hour, MaxBackoff: time.Hour}}, []error{after(weir.Never - 1)}, 0, 1, 0},
		{"what a client keeps back is never retried", all, []error{weir.Reject(weir.Throttled, 0)}, 0, 1, 0},
		{"RetryAfter is waited for", atOnce, []error{after(2 * s), after(3 * s)}, 0, 3, 5 * s},
		{"a negative one is none", atOnce, []error{after(-s)}, 0, 2, 0},
		{"unless the caller leaves before", atOnce, []error{after(2 * s)}, s, 1, 0},
		{"or just then", atOnce, []error{after(2 * s)}, 2 * s, 1, 0},
		{"but not after", atOnce, []error{after(2 * s)}, 2*s + 1, 2, 2 * s},
		{"no budget, no retry", with(func(c *plan) { c.MinPerSecond = -1 }), []error{full}, 0, 1, 0},
		{"a budget for one", with(func(c *plan) { c.MinPerSecond = 0.1 }), []error{full, full}, 0, 2, 0},
		{"no wait without MaxBackoff either", plan{RetryConfig: throttle.RetryConfig{MaxBackoff: -1}}, []error{full}, 0, 2, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := retrierOf(t, tt.cfg.RetryConfig, tt.cfg.retryable)
				ctx := t.Context()
				if tt.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				began, n := time.Now(), 0
				var last error
				err := r.Do(ctx, func(c context.Context) error {
					if c != ctx {
						t.Error("want the caller's context")
					}
					n++
					last = nil
					if n <= len(tt.errs) {
						last = tt.errs[n-1]
					}
					return last
				})
				if took := time.Since(began); n != tt.attempts || took != tt.took || err != last {
					t.Errorf("%d attempts in %v, %v: want %d in %v, %v", n, took, err, tt.attempts, tt.took, last)
				}
				if st := r.Stats(); st.Requests != min(1, st.Requests) || st.Retried != uint64(n-1) {
					t.Errorf("%+v: want %d retries", st, n-1)
				}
			})
		})
	}
}

// Waits are exponential, with full jitter, on top of RetryAfter.
func TestDoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, least [2]time.Duration
		for i := range least {
			least[i] = time.Hour
		}
		r := retrier(t, throttle.RetryConfig{Backoff: 2 * s, MaxBackoff: 3 * s, Ratio: 1, MinPerSecond: 1})
		for range 500 {
			last, n := time.Now(), 0
			err := r.Do(t.Context(), func(context.Context) error {
				if n++; n > 1 {
					wait := time.Since(last)
					most[n-2], least[n-2] = max(most[n-2], wait), min(least[n-2], wait)
				}
				last = time.Now()
				return after(s)
			})
			if n != 3 || err == nil {
				t.Fatalf("%d attempts, %v", n, err)
			}
		}
		for i, longest := range []time.Duration{2 * s, 3 * s} {
			if least[i] < s || least[i] > s+longest/10 || most[i] >= s+longest || most[i] < s+longest*9/10 {
				t.Errorf("wait %d: %v to %v: want 1s to %v", i, least[i], most[i], s+longest)
			}
		}
	})
}

// By default a first wait is within 100 ms, a second one within 200. A negative
// RetryAfter does not shorten them.
func TestDoWaitsByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, longest := retrier(t, throttle.RetryConfig{}), time.Duration(0)
		for range 200 {
			began := time.Now()
			_ = r.Do(t.Context(), func(context.Context) error { return after(-s) })
			longest = max(longest, time.Since(began))
			time.Sleep(10 * s)
		}
		if longest < 200*time.Millisecond || longest >= 300*time.Millisecond {
			t.Errorf("waits up to %v: want nearly 300ms", longest)
		}
	})
}

// A call that is cancelled while it waits returns the error of its last attempt.
func TestDoCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := retrier(t, throttle.RetryConfig{Backoff: -1})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(s, cancel)
		began, n := time.Now(), 0
		err := r.Do(ctx, func(context.Context) error { n++; return after(time.Hour) })
		if n != 1 || time.Since(began) != s || err == nil || err.Error() != "rejected: over_rate" {
			t.Errorf("%d attempts in %v, %v", n, time.Since(began), err)
		}
		if err := r.Do(ctx, func(context.Context) error { n++; return nil }); n != 1 || err != context.Canceled {
			t.Errorf("%v: want the context's error, and no attempt", err)
		}
		if st := r.Stats(); st.Requests != 1 || st.Retries != 1 {
			t.Errorf("%+v: want one request, and its retry spent", st)
		}
	})
}

// A call that is cancelled before fn returns spends no budget.
func TestDoLeft(t *testing.T) {
	r := retrier(t, throttle.RetryConfig{Backoff: -1})
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.Do(ctx, func(context.Context) error { cancel(); return full }); err != full {
		t.Error(err)
	}
	if st := r.Stats(); st.Retries != 0 || st.Exhausted != 0 {
		t.Errorf("%+v: want no retry", st)
	}
}

// "layering on the per-client retry budget (a 10% retry ratio) reduces the
// growth to just 1.1x in the general case": ten minutes of outage, 100 requests a
// second.
func TestRetryStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := retrier(t, throttle.RetryConfig{Backoff: -1, MinPerSecond: -1})
		attempts := 0
		const requests = 600 * 100
		for range requests {
			_ = r.Do(t.Context(), func(context.Context) error { attempts++; return full })
			time.Sleep(s / 100)
		}
		if growth := float64(attempts) / requests; growth > 1.1 || growth < 1.09 {
			t.Errorf("%v times the load: want 1.1", growth)
		}
		if st := r.Stats(); st.Retried+requests != uint64(attempts) || st.Retries > st.Allowed {
			t.Errorf("%+v", st)
		}
	})
}

// The budget counts the calls and the retries of the last ten seconds.
func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := retrier(t, throttle.RetryConfig{Backoff: -1, MinPerSecond: 0.1})
		attempts := 0
		call := func(n int, err error) {
			for range n {
				_ = r.Do(t.Context(), func(context.Context) error { attempts++; return err })
			}
		}
		call(8, nil)
		if call(2, full); attempts != 12 {
			t.Errorf("%d attempts: want 10 calls, one retry for them, and one for ten seconds", attempts)
		}
		time.Sleep(10 * s)
		if st := r.Stats(); st != (throttle.RetryStats{Allowed: 1, Retried: 2, Exhausted: 2}) {
			t.Errorf("%+v: want the window to pass", st)
		}
		for range 2 {
			attempts = 0
			if call(1, full); attempts != 2 {
				t.Errorf("%d attempts: want one retry for ten seconds", attempts)
			}
			time.Sleep(10 * s)
		}
	})
}

func TestRetryConfig(t *testing.T) {
	for want, cfg := range map[string]throttle.RetryConfig{
		"throttle: Attempts = -1: must be >= 0": {Attempts: -1},
		"throttle: Ratio = 2":                   {Ratio: 2},
	} {
		if r, err := throttle.NewRetrier(cfg, nil); r != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, %v: want %s", r, err, want)
		}
	}
}

func TestRetrierAllocations(t *testing.T) {
	broke := throttle.RetryConfig{Ratio: 1e-9, MinPerSecond: -1}
	rich := throttle.RetryConfig{Backoff: -1, MinPerSecond: 1e9}
	for _, tt := range []struct {
		what string
		cfg  throttle.RetryConfig
		err  error
	}{
		{"success", rich, nil},
		{"not retryable", rich, errNoone},
		{"no budget", broke, full},
		{"throttled", rich, weir.Reject(weir.Throttled, 0)},
		{"in vain", rich, weir.Reject(weir.OverBurst, weir.Never)},
		{"retried at once", rich, full},
	} {
		r := retrier(t, tt.cfg)
		fn := func(context.Context) error { return tt.err }
		allocateNothing(t, tt.what, func() {
			if err := r.Do(t.Context(), fn); err != tt.err {
				t.Error(err)
			}
		})
	}
}
