package inflight_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// A cold service is slower than a warm one, and slower for each piece of work at once beyond a
// few. Each piece warms it up, and an idle time cools it down.
type coldService struct {
	mu       sync.Mutex // guards what follows
	done     int
	last     time.Time
	inflight atomic.Int64
	peak     atomic.Int64
}

// work takes 20 ms, or up to 20 times as long.
func (c *coldService) work() {
	n := c.inflight.Add(1)
	defer c.inflight.Add(-1)
	for peak := c.peak.Load(); n > peak && !c.peak.CompareAndSwap(peak, n); peak = c.peak.Load() {
	}
	c.mu.Lock()
	if time.Since(c.last) > time.Minute {
		c.done = 0
	}
	c.last = time.Now()
	d := 20 * time.Millisecond
	if room := int64(4 + c.done); n > room {
		d *= time.Duration(min(n-room, 19) + 1)
	}
	c.mu.Unlock()
	time.Sleep(d)
	c.mu.Lock()
	c.done++
	c.mu.Unlock()
}

// burst sends n requests at once, whose callers wait for 200 ms, and returns how many are done
// in time and the most that were in flight.
func burst(l *inflight.Limiter, c *coldService, n int) (inTime int, peak int64) {
	var all sync.WaitGroup
	var good atomic.Int64
	c.peak.Store(0)
	for range n {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			p, err := l.Acquire(ctx, 1)
			if err != nil {
				return
			}
			c.work()
			if ctx.Err() == nil {
				good.Add(1)
			}
			p.Release(weir.Success)
		})
	}
	all.Wait()
	return int(good.Load()), c.peak.Load()
}

// After its start and after an idle time, the first burst is let in gradually, under a fixed
// limit and under Auto; without an idle time the limit stays.
func TestSlowStart(t *testing.T) {
	for name, alg := range map[string]func() limit.Algorithm{
		"fixed": func() limit.Algorithm { return limit.Fixed(64) },
		"auto": func() limit.Algorithm {
			a, err := limit.NewAuto(limit.Config{Initial: 64, Min: 64})
			testrig.Must(t, err)
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow, err := limit.NewSlowStart(alg(), limit.SlowStart{Idle: time.Minute, Initial: 4})
				testrig.Must(t, err)
				var idle atomic.Int64
				with := newLimiter(t, inflight.Config{Algorithm: slow, Trace: func(e inflight.Event) {
					if e.Cause == limit.Idle {
						idle.Add(1)
					}
				}})
				without, warm, cold := newLimiter(t, inflight.Config{Algorithm: alg()}), &coldService{}, &coldService{}
				for hour := range 3 {
					gradually, peak := burst(with, warm, 64)
					atOnce, all := burst(without, cold, 64)
					if peak > 40 || all != 64 || gradually < 60 || atOnce > 40 {
						t.Errorf("hour %d: %d in time with at most %d in flight, %d with %d without a slow start", hour, gradually, peak, atOnce, all)
					}
					for range 20 {
						burst(with, warm, 64)
						burst(without, cold, 64)
					}
					if n, peak := burst(with, warm, 64); n < 64 || peak < 64 {
						t.Errorf("hour %d: when warm, %d of 64 with %d in flight", hour, n, peak)
					}
					time.Sleep(time.Hour)
				}
				if idle.Load() != 3 {
					t.Errorf("%d events of idle limits: want 3", idle.Load())
				}
				if s := with.Stats(); s.Limit != 4 {
					t.Errorf("after an hour the limit is %d: want 4", s.Limit)
				}
			})
		})
	}
}

// Thousands of requests a second, of which a part is sampled, keep the limit up.
func TestSlowStartSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, err := limit.NewSlowStart(limit.Fixed(100), limit.SlowStart{Idle: 10 * time.Second, Initial: 2})
		testrig.Must(t, err)
		l := newLimiter(t, inflight.Config{Algorithm: slow})
		var all sync.WaitGroup
		for range 90 {
			all.Go(func() {
				for began := time.Now(); time.Since(began) < time.Minute; {
					p, err := l.Acquire(t.Context(), 1)
					if err != nil {
						continue
					}
					time.Sleep(5 * time.Millisecond)
					p.Release(weir.Success)
				}
			})
		}
		time.Sleep(time.Second)
		for range 50 {
			time.Sleep(time.Second)
			if n := l.Stats().Limit; n != 100 {
				t.Fatalf("under load the limit is %d: want 100", n)
			}
		}
		all.Wait()
		time.Sleep(time.Minute)
		if n := l.Stats().Limit; n != 2 {
			t.Errorf("after a minute the limit is %d: want 2", n)
		}
	})
}

// A slow start with an endless window leaves the time-outs of the queue alone.
func TestSlowStartNeverIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, err := limit.NewSlowStart(limit.Fixed(1), limit.SlowStart{Idle: weir.Never})
		testrig.Must(t, err)
		l := newLimiter(t, inflight.Config{Algorithm: slow, MaxWait: time.Second})
		acquire := func() (weir.Permit, error) { return l.Acquire(context.Background(), 1) }
		first, err := acquire()
		testrig.Must(t, err)
		time.Sleep(time.Second)
		first.Release(weir.Success) // the window begins
		held, err := acquire()
		testrig.Must(t, err)
		defer held.Release(weir.Success)
		began := time.Now()
		time.AfterFunc(time.Minute, func() { held.Release(weir.Success) })
		if _, err := acquire(); err == nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v: want rejected after a second", err, time.Since(began))
		}
	})
}
