//go:build system

package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

// patient is a Config for tests of decisions by the server, on machines that stall.
var patient = redislimit.Config{Away: redislimit.Deny, Instances: 1, Timeout: 20 * time.Second}

func limiter(t testing.TB, rdb redis.UniversalClient, q gcra.Quota, cfg redislimit.Config) *redislimit.Limiter {
	t.Helper()
	l, err := redislimit.New(rdb, q, cfg)
	testrig.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func take(t testing.TB, l *redislimit.Limiter, key string, n int) redislimit.Decision {
	t.Helper()
	d, err := l.Take(context.Background(), key, n)
	testrig.Must(t, err)
	return d
}

func TestTake(t *testing.T) {
	for _, engine := range redistest.Engines {
		t.Run(engine, func(t *testing.T) {
			l := limiter(t, client(t, redistest.Start(t, engine)), gcra.Per(10, time.Hour, 5), patient)
			for i, tt := range []struct {
				key       string
				n         int
				ok        bool
				remaining int
				retry     time.Duration
			}{
				{"a", 0, true, 5, 0}, {"a", 1, true, 4, 0}, {"a", 3, true, 1, 0}, {"a", 2, false, 1, 6 * time.Minute}, {"b", 5, true, 0, 0},
				{"a", 6, false, 1, weir.Never}, {"a", 1, true, 0, 0}, {"a", 1, false, 0, 6 * time.Minute},
			} {
				d := take(t, l, tt.key, tt.n)
				if d.OK != tt.ok || d.Remaining != tt.remaining || d.Step != redislimit.Exact || d.RetryAfter > tt.retry || d.RetryAfter < tt.retry-time.Minute {
					t.Errorf("%d: %d of %s: %+v, want %+v", i, tt.n, tt.key, d, tt)
				}
			}
			testrig.Must(t, l.Reset(context.Background(), "a"))
			if d := take(t, l, "a", 5); !d.OK {
				t.Errorf("after Reset: %+v", d)
			}
		})
	}
}

// Limiters of several programs allow the limit together, and no more.
func TestShared(t *testing.T) {
	server := redistest.Start(t, "redis-server")
	var allowed atomic.Int64
	var group sync.WaitGroup
	for range 3 {
		l := limiter(t, client(t, server), gcra.Per(1, time.Hour, 300), patient)
		for range 8 {
			group.Go(func() {
				for range 50 {
					if d, err := l.Take(context.Background(), "key", 1); err != nil {
						t.Error(err)
					} else if d.OK {
						allowed.Add(1)
					}
				}
			})
		}
	}
	if group.Wait(); allowed.Load() != 300 {
		t.Errorf("%d allowed, want 300", allowed.Load())
	}
}

// Callers that wait get no more than the rate.
func TestAcquire(t *testing.T) {
	server := redistest.Start(t, "redis-server")
	began := time.Now()
	var group sync.WaitGroup
	for range 3 {
		l := limiter(t, client(t, server), gcra.Per(200, time.Second, 10), patient)
		for range 20 {
			group.Go(func() {
				if _, err := l.For("key").Acquire(context.Background(), 1); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if group.Wait(); time.Since(began) < 245*time.Millisecond {
		t.Errorf("60 tokens after %v: want 10 and 200 a second", time.Since(began))
	}
}

// A wait that cannot end in time is rejected at once, and a caller that leaves gives its
// tokens back.
func TestAcquireEnds(t *testing.T) {
	cfg := patient
	cfg.MaxWait = 30 * time.Minute
	l := limiter(t, client(t, redistest.Start(t, "redis-server")), gcra.Per(10, time.Hour, 5), cfg)
	acquire := func(ctx context.Context, n int) error {
		p, err := l.For("key").Acquire(ctx, n)
		p.Release(weir.Success)
		return err
	}
	ctx := context.Background()
	soon, stop := context.WithTimeout(ctx, 5*time.Minute)
	defer stop()
	want := func(err error, why weir.Reason, least, most time.Duration) {
		t.Helper()
		r, ok := errors.AsType[*weir.Rejection](err)
		if !ok || r.Reason != why || r.RetryAfter < least || r.RetryAfter > most {
			t.Errorf("%v, %+v: want %v after %v to %v", err, r, why, least, most)
		}
	}
	want(acquire(ctx, 6), weir.OverBurst, weir.Never, weir.Never)
	testrig.Must(t, acquire(ctx, 5))
	want(acquire(soon, 1), weir.TooLate, 5*time.Minute, 8*time.Minute)
	leaving, leave := context.WithCancel(ctx)
	left := make(chan error)
	go func() { left <- acquire(leaving, 5) }()
	redistest.Until(t, "a call waits", func() error {
		if n := l.Stats().Waiting; n != 1 {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	want(acquire(ctx, 1), weir.OverRate, 30*time.Minute, 46*time.Minute)
	leave()
	if err := <-left; err != context.Canceled {
		t.Errorf("the caller that leaves: %v", err)
	}
	redistest.Until(t, "its tokens are back", func() error {
		if d := take(t, l, "key", 0); d.RetryAfter != 0 || d.ResetAfter > 30*time.Minute {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
}

// Use settles a cost that differs.
func TestUse(t *testing.T) {
	l := limiter(t, client(t, redistest.Start(t, "redis-server")), gcra.Per(10, time.Hour, 10), patient)
	p, err := l.For("key").Acquire(context.Background(), 4)
	testrig.Must(t, err)
	remains := func(n int) {
		t.Helper()
		redistest.Until(t, fmt.Sprint(n, " tokens remain"), func() error {
			if d := take(t, l, "key", 0); d.Remaining != n {
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
	}
	p.Use(1)
	remains(9)
	p.Use(7)
	remains(3)
	p.Use(1000) // in debt by the burst
	redistest.Until(t, "the key is in debt", func() error {
		if d := take(t, l, "key", 0); d.OK || d.RetryAfter < 59*time.Minute || d.RetryAfter > time.Hour {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	p.Release(weir.Success)
}

// A state that owes more than any call could have made it owe is of another quota, or of a
// clock that was ahead. It counts as the most that calls can make.
func TestStateFromElsewhere(t *testing.T) {
	rdb, ctx := client(t, redistest.Start(t, "redis-server")), context.Background()
	cfg := patient
	cfg.MaxWait, cfg.MaxDebt = time.Minute, -1
	l := limiter(t, rdb, gcra.Per(1, time.Second, 5), cfg)
	testrig.Must(t, rdb.Set(ctx, "weir:rate:key", time.Now().Add(24*time.Hour).UnixMicro(), 0).Err())
	if d := take(t, l, "key", 1); d.OK || d.RetryAfter < time.Minute || d.RetryAfter > 63*time.Second {
		t.Errorf("%+v, want a denial for a minute and some seconds", d)
	}
}

func TestEnds(t *testing.T) {
	rdb := client(t, redistest.Start(t, "redis-server"))
	l := limiter(t, rdb, gcra.Per(10, time.Hour, 10), patient)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Take(ctx, "key", 1); err != context.Canceled {
		t.Errorf("with a context that has ended: %v", err)
	}
	testrig.Must(t, rdb.LPush(context.Background(), "weir:rate:list", 1).Err())
	if _, err := l.Take(context.Background(), "list", 1); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("of a key with another value: %v", err)
	}
	_ = l.Close()
	if _, err := l.Take(context.Background(), "key", 1); !errors.Is(err, weir.ErrRejected) {
		t.Errorf("after Close: %v", err)
	}
}
