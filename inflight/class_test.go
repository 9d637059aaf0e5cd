package inflight_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
)

// as queues a request with the class of a context, to work for a while.
func (q *line) as(ctx context.Context, who string, work time.Duration) {
	go func() {
		p, err := q.l.Acquire(ctx, 1)
		q.mu.Lock()
		q.said = append(q.said, fmt.Sprintf("%s %s %v", who, what(err), time.Since(q.began)))
		q.mu.Unlock()
		time.Sleep(work)
		p.Release(weir.Success)
	}()
	synctest.Wait()
}

func TestPriorityIsInTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{Queue: 3, MaxWait: -1})
		held := acquire(t, l, 1)
		q := newLine(t, l)
		q.as(weir.WithClass(t.Context(), weir.Class{Priority: weir.Sheddable}), "sheddable", time.Second)
		q.as(t.Context(), "ordinary", time.Second)
		q.as(t.Context(), "ordinary'", time.Second)
		q.as(weir.WithClass(t.Context(), weir.Class{Priority: weir.CriticalPlus}), "urgent", time.Second) // the queue is full
		held.Release(weir.Success)
		time.Sleep(time.Minute)
		q.expect("sheddable queue_full 0s", "urgent admit 0s", "ordinary admit 1s", "ordinary' admit 2s")
		if s := l.Stats(); l.Evicted() != 1 || s.Rejected[weir.QueueFull] != 1 {
			t.Errorf("%+v: want one evicted", s)
		}
	})
}

func TestTenantsAreServedInTurn(t *testing.T) {
	for _, fair := range []int{0, 64} {
		t.Run(fmt.Sprint(fair), func(t *testing.T) {
			tenants(t, fair, "a0 admit 0s", "b0 admit 1s", "b1 admit 2s", "a1 admit 3s", "b2 admit 4s", "b3 admit 5s", "a2 admit 6s", "a3 admit 7s")
		})
	}
	tenants(t, 1, "a0 admit 0s", "a1 admit 1s", "a2 admit 2s", "a3 admit 3s", "b0 admit 4s", "b1 admit 5s", "b2 admit 6s", "b3 admit 7s")
}

func tenants(t *testing.T, fair int, want ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{MaxWait: -1, Discipline: inflight.FIFO, FairQueues: fair, Weights: map[string]int{"b": 2}})
		l.SetQueue(50, -1) // the other rules stay
		held := acquire(t, l, 1)
		q := newLine(t, l)
		a, b := weir.WithClass(t.Context(), weir.Class{Tenant: "a"}), weir.WithClass(t.Context(), weir.Class{Tenant: "b"})
		for i := range 4 {
			q.as(a, fmt.Sprint("a", i), time.Second)
		}
		for i := range 4 {
			q.as(b, fmt.Sprint("b", i), time.Second)
		}
		held.Release(weir.Success)
		time.Sleep(time.Minute)
		q.expect(want...)
	})
}

func TestPartitionsAreGuaranteed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 2, inflight.Config{MaxWait: -1, Partitions: map[string]float64{"batch": 0, "web": 0.5}})
		batch, web := weir.WithClass(t.Context(), weir.Class{Partition: "batch"}), weir.WithClass(t.Context(), weir.Class{Partition: "web"})
		q := newLine(t, l)
		q.as(batch, "batch", 2*time.Second) // borrows
		q.as(batch, "batch", 2*time.Second)
		q.as(batch, "batch'", 3*time.Second)
		q.as(web, "web", time.Second)
		q.as(web, "web'", time.Second)
		q.as(weir.WithClass(t.Context(), weir.Class{Partition: "unheard of"}), "other", time.Second)
		time.Sleep(time.Minute)
		q.expect("batch admit 0s", "batch admit 0s", "web admit 2s", "batch' admit 2s", "web' admit 3s", "other admit 4s")
		if s := l.Stats(); s.Inflight != 0 || s.Outcomes[weir.Success] != 6 {
			t.Errorf("%+v", s)
		}
	})
}

// What a partition has in flight counts, from the first moment to the last.
func TestWhatAPartitionHolds(t *testing.T) {
	for name, tt := range map[string]struct {
		first  func(web, other *weir.Permit)
		better string // which of the waiting requests goes first
	}{
		"it has its share":     {func(_, other *weir.Permit) { other.Release(weir.Success) }, "other"},
		"it has given it back": {func(web, _ *weir.Permit) { web.Release(weir.Success) }, "web"},
		"it uses nothing":      {func(web, _ *weir.Permit) { web.Use(0) }, "web"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := fixed(t, 2, inflight.Config{MaxWait: -1, Partitions: map[string]float64{"web": 0.5}})
				web := weir.WithClass(t.Context(), weir.Class{Partition: "web"})
				p, err := l.Acquire(web, 1)
				if err != nil {
					t.Fatal(err)
				}
				other := acquire(t, l, 1)
				q := newLine(t, l)
				worse := map[string]string{"web": "other", "other": "web"}[tt.better]
				q.as(t.Context(), "other", time.Second)
				q.as(web, "web", time.Second)
				tt.first(&p, &other)
				time.Sleep(time.Minute)
				q.expect(tt.better+" admit 0s", worse+" admit 1s")
				p.Release(weir.Success)
				other.Release(weir.Success)
			})
		})
	}
}

// A request that cannot be done by its deadline is rejected at once; the error is
// also a missed deadline.
func TestTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{MaxWait: -1})
		q := newLine(t, l)
		for range 20 {
			q.as(t.Context(), "regular", time.Second)
		}
		time.Sleep(time.Minute)
		held := acquire(t, l, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := l.Acquire(ctx, 1)
		if reason(err) != weir.TooLate || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 0 {
			t.Errorf("%v after %v: want too_late at once", err, time.Since(began))
		}
		allocateNothing(t, "refuse, too late", func() {
			if _, err := l.Acquire(ctx, 1); reason(err) != weir.TooLate {
				t.Errorf("%v: want too_late", err)
			}
		})
		held.Release(weir.Success)
	})
}

// A permit of abandoned work keeps its units until the work could have ended.
func TestAbandonedWorkStillCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{MaxWait: -1})
		p := acquire(t, l, 1)
		time.Sleep(time.Second)
		p.Release(weir.Success)
		p = acquire(t, l, 1)
		q := newLine(t, l)
		q.as(t.Context(), "next", time.Second)
		time.Sleep(100 * time.Millisecond)
		p.Release(outcome.TimedOut)
		if s := l.Stats(); s.Held != 1 || s.Inflight != 1 || s.Outcomes[weir.Dropped] != 1 || s.Abandoned != 1 {
			t.Errorf("%+v: want one unit held", s)
		}
		time.Sleep(time.Minute)
		q.expect("next admit 1s")
	})
}

func TestValidate(t *testing.T) {
	for want, cfg := range map[string]inflight.Config{
		"": {Queue: -1, MaxWait: -1, Target: 1, Interval: 1, FairQueues: 64, Weights: map[string]int{"a": 1}, Aging: 1,
			Partitions: map[string]float64{"a": 0, "b": 1}},
		`inflight: Discipline = "lifo": must be one of ["fifo" "codel" "codel_2012" "adaptive_lifo"]`: {Discipline: "lifo"},
		"inflight: Target = -3s: must be >= 0":                                                        {Target: -3 * time.Second},
		"inflight: Depth = -0.5: must be >= 0":                                                        {Depth: -0.5},
		"inflight: Depth = NaN: must be >= 0":                                                         {Depth: math.NaN()},
		"inflight: MinWait = -1ns: must be >= 0":                                                      {MinWait: -1},
		"inflight: Interval = -1ns: must be >= 0":                                                     {Interval: -1},
		"inflight: FairQueues = -1: must be between 0 and 4096":                                       {FairQueues: -1},
		"inflight: Aging = -1ns: must be >= 0":                                                        {Aging: -1},
		`inflight: Weights["a"] = 0: must be >= 1`:                                                    {Weights: map[string]int{"a": 0}},
		`inflight: Partitions[""] = 0: must have a name`:                                              {Partitions: map[string]float64{"": 0}},
		`inflight: Partitions["a"] = 1.5: must be between 0 and 1`:                                    {Partitions: map[string]float64{"a": 1.5}},
		`inflight: Partitions["a"] = NaN: must be between 0 and 1`:                                    {Partitions: map[string]float64{"a": math.NaN()}},
		"inflight: the sum of Partitions = 1.2: must be at most 1":                                    {Partitions: map[string]float64{"a": 0.6, "b": 0.6}},
	} {
		got := ""
		if l, err := inflight.New(cfg); err != nil {
			got = err.Error()
			if l != nil {
				t.Error("an error, and a Limiter")
			}
		}
		if got != want {
			t.Errorf("%+v: %q: want %q", cfg, got, want)
		}
	}
	if _, err := inflight.New(inflight.Config{Discipline: inflight.AdaptiveLIFO}); err != nil {
		t.Error(err)
	}
}
