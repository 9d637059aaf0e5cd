package inflight_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// hooked is a context that runs a hook when it is asked what to wait for: after
// its caller has joined the queue, and before it listens.
type hooked struct {
	context.Context
	hook func()
}

func (h hooked) Done() <-chan struct{} { h.hook(); return h.Context.Done() }

// Between joining the queue and listening for the answer there is a moment. An
// answer of that moment must not be lost (bohde/codel's Lock loses a drop then,
// and its caller hangs).
func TestLostWakeUp(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(l *inflight.Limiter, held *weir.Permit)
		want   string
	}{
		"a grant":   {func(_ *inflight.Limiter, held *weir.Permit) { held.Release(weir.Success) }, "admit"},
		"a refusal": {func(l *inflight.Limiter, _ *weir.Permit) { l.SetAlgorithm(limit.Fixed(0)) }, "over_limit"},
		"a drop": {func(l *inflight.Limiter, _ *weir.Permit) {
			time.Sleep(time.Second)
			l.Stats() // the alarm has rung, or rings now
		}, "overdue"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := fixed(t, 1, inflight.Config{MaxWait: time.Second})
				held := acquire(t, l, 1)
				once := sync.OnceFunc(func() { tt.answer(l, &held); synctest.Wait() })
				p, err := l.Acquire(hooked{t.Context(), once}, 1)
				if what(err) != tt.want {
					t.Errorf("%s: want %s", what(err), tt.want)
				}
				p.Release(weir.Success)
			})
		})
	}
}

// However a request ends, its units are free in the end.
func TestSlotLeak(t *testing.T) {
	for _, d := range []inflight.Discipline{inflight.FIFO, inflight.CoDel, inflight.AdaptiveLIFO} {
		t.Run(string(d), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := fixed(t, 5, inflight.Config{Queue: 10, MaxWait: 300 * time.Millisecond, Discipline: d, FairQueues: 8})
				var all sync.WaitGroup
				for i := range 2000 {
					all.Go(func() {
						time.Sleep(time.Duration(i) * 7 * time.Millisecond)
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(50+i%7*100)*time.Millisecond)
						defer cancel()
						ctx = weir.WithClass(ctx, weir.Class{Tenant: string(rune('a' + i%3)), Priority: weir.Priority(i%4 - 2)})
						if i%5 == 0 {
							time.AfterFunc(time.Duration(i%11)*10*time.Millisecond, cancel)
						}
						if p, err := l.Acquire(ctx, 1+i%4); err == nil {
							time.Sleep(time.Duration(20+i%30) * time.Millisecond)
							p.Release(weir.Outcome(i % 6))
							p.Release(weir.Success)
						}
					})
				}
				all.Wait()
				time.Sleep(time.Second) // until what was abandoned is over
				s := l.Stats()
				if s.Inflight != 0 || s.Held != 0 || s.Waiting != 0 || s.Outcomes[weir.Success]+s.Outcomes[weir.Dropped]+s.Outcomes[weir.Ignored] != s.Admitted || s.Abandoned == 0 || l.Evicted() == 0 {
					t.Errorf("%+v: want nothing left, and some of everything", s)
				}
				p := acquire(t, l, 5)
				p.Release(weir.Success)
			})
		})
	}
}

// A caller that leaves says nothing about load: it neither lowers the limit nor
// makes CoDel drop a request.
func TestCallerCancelCountedAsADrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alg, err := limit.NewAIMD(limit.Config{Initial: 10}, 0)
		if err != nil {
			t.Fatal(err)
		}
		l := newLimiter(t, inflight.Config{Algorithm: alg, Discipline: inflight.CoDel, MaxWait: -1})
		held := acquire(t, l, 10)
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if _, err := l.Acquire(ctx, 1); err != context.Canceled {
				t.Errorf("%v: want canceled", err)
			}
		}
		held.Release(weir.Ignored)
		for range 50 { // admitted, and then the caller leaves
			p := acquire(t, l, 1)
			p.Release(weir.OutcomeOf(context.Canceled))
		}
		if s := l.Stats(); s.Limit != 10 || s.Outcomes[weir.Dropped] != 0 || s.Rejected[weir.Overdue] != 0 || s.Cancelled != 200 || s.Outcomes[weir.Ignored] != 51 {
			t.Errorf("%+v: want 200 that cancelled, 51 to ignore, and no drop", s)
		}
	})
}

// A large request gets in, however many small ones there are; and they are not
// held back more than by what it needs.
func TestStarvationOfBigRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 10, inflight.Config{MaxWait: -1})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 250 * time.Microsecond)
				for {
					p, err := l.Acquire(ctx, 1)
					if err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
					p.Release(weir.Success)
				}
			})
		}
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			began, before := time.Now(), l.Stats().Admitted
			p := acquire(t, l, 8)
			// 30 of them wait before it; then 16 units are freed at most.
			if d, n := time.Since(began), l.Stats().Admitted-before; d > 60*time.Millisecond || n < 30 {
				t.Errorf("the large one waited for %v, and %d went before it", d, n)
			}
			p.Release(weir.Success)
		}
		stop()
		all.Wait()
	})
}

// Work that hangs frees nothing. Waiting requests are rejected nevertheless.
func TestWaitersStrandedByHungHolders(t *testing.T) {
	for _, tt := range []struct {
		rule string
		cfg  inflight.Config
		told int           // of ten
		by   time.Duration // the last of them
	}{
		{"by MaxWait, all", inflight.Config{}, 10, time.Second},
		{"by CoDel, all but the last two", inflight.Config{Discipline: inflight.CoDel, MaxWait: -1}, 8, 600 * time.Millisecond},
		{"by CoDel and then MaxWait, all", inflight.Config{Discipline: inflight.CoDel, MaxWait: 2 * time.Second}, 10, 2 * time.Second},
		{"by adaptive LIFO, all but the last", inflight.Config{Discipline: inflight.AdaptiveLIFO, MaxWait: -1}, 9, 100 * time.Millisecond},
		{"by default, all", inflight.Config{Discipline: inflight.DefaultDiscipline}, 10, inflight.DefaultMaxWait},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := fixed(t, 1, tt.cfg)
				acquire(t, l, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				var told int
				var last time.Duration
				var mu sync.Mutex
				for range 10 {
					go func() {
						if _, err := l.Acquire(ctx, 1); reason(err) == weir.Overdue {
							mu.Lock()
							defer mu.Unlock()
							told, last = told+1, time.Since(began)
						}
					}()
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if told != tt.told || last > tt.by {
					t.Errorf("%d are told, the last after %v: want %d by %v", told, last, tt.told, tt.by)
				}
			})
		})
	}
}

// A wait costs one allocation, the channel of its answer, whatever the rules.
func TestWaitingAllocatesOnce(t *testing.T) {
	for _, cfg := range []inflight.Config{
		{MaxWait: -1},
		{MaxWait: time.Hour},
		{MaxWait: -1, Discipline: inflight.CoDel, FairQueues: 8, Aging: time.Second, Partitions: map[string]float64{"a": 0.5}},
	} {
		l := fixed(t, 1, cfg)
		ctx := weir.WithClass(t.Context(), weir.Class{Tenant: "somebody", Priority: 1})
		held := make(chan *weir.Permit)
		waits, done := make(chan struct{}), make(chan struct{})
		go func() { // releases the permit, once a request waits
			defer close(done)
			for range waits {
				p := <-held
				for l.Waiting() == 0 {
					runtime.Gosched()
				}
				p.Release(weir.Success)
			}
		}()
		var first weir.Permit
		n := testing.AllocsPerRun(200, func() {
			var err error
			first, err = l.Acquire(ctx, 1)
			if err != nil {
				t.Error(err)
			}
			waits <- struct{}{}
			held <- &first
			p, err := l.Acquire(ctx, 1)
			if err != nil {
				t.Error(err)
			}
			p.Release(weir.Success)
		})
		close(waits)
		<-done
		if n > 1 {
			t.Errorf("%+v: %v allocations for a wait: want one", cfg, n)
		}
	}
}
