package inflight_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// backend works for a time, on one of its workers.
func backend(workers chan struct{}, takes time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case workers <- struct{}{}:
			defer func() { <-workers }()
		case <-ctx.Done():
			return ctx.Err()
		}
		work := time.NewTimer(takes)
		defer work.Stop()
		select {
		case <-work.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Callers that leave for reasons of their own are no sign of load: a user types on, and each
// key cancels the search of the one before. The service is half busy.
func TestCallersThatTypeOn(t *testing.T) {
	const seeds, users = 8, 400
	var served [seeds]int
	sum := 0
	for seed := range served {
		served[seed] = typeOn(t, uint64(seed), users)
		sum += served[seed]
	}
	if sum < seeds*users*95/100 {
		t.Errorf("of %d users each, %d got what they searched: want 95 of 100", users, served)
	}
}

// typeOn returns how many users get the result of their last search.
func typeOn(t *testing.T, seed uint64, users int) int {
	var served atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, inflight.Config{})
		workers := make(chan struct{}, 10)
		rng := rand.New(rand.NewPCG(seed, 1))
		var all sync.WaitGroup
		search := func(takes, until time.Duration) error {
			ctx, typed := context.WithCancel(t.Context())
			result := make(chan error, 1)
			all.Go(func() { result <- weir.Do(ctx, l, backend(workers, takes)) })
			time.Sleep(until)
			typed()
			return <-result
		}
		for range users {
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second) / 6))
			var takes, pauses [6]time.Duration
			for i := range takes {
				takes[i] = time.Duration(rng.ExpFloat64() * 150e6)
				pauses[i] = 80*time.Millisecond + time.Duration(rng.Int64N(120e6))
			}
			all.Go(func() {
				for i := range 5 {
					_ = search(takes[i], pauses[i])
					time.Sleep(time.Millisecond) // the next search is not at the instant at which this one ends
				}
				if search(takes[5], 10*time.Second) == nil {
					served.Add(1)
				}
			})
		}
		all.Wait()
	})
	return int(served.Load())
}

// A client that ends takes all its callers along, also those of work that goes on. That is no
// patience.
func TestClientsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(2)})
		work := func(ctx context.Context, takes time.Duration) {
			_ = weir.Do(ctx, l, func(ctx context.Context) error {
				time.Sleep(takes)
				return ctx.Err()
			})
		}
		for range 5 {
			ctx, end := context.WithCancel(t.Context())
			var client sync.WaitGroup
			for range 8 {
				client.Go(func() { work(ctx, 100*time.Millisecond) })
				time.Sleep(4 * time.Millisecond)
			}
			end()
			client.Wait()
			for range 10 {
				work(t.Context(), 50*time.Millisecond)
			}
			if s := l.Stats(); s.Patience != 0 {
				t.Fatalf("patience %v, %+v: want none", s.Patience, s)
			}
		}
	})
}

// The losers of tied requests do not make the winners' queue useless.
func TestTiedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replicas []func(context.Context, time.Duration) error
		for range 2 {
			l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(10)})
			workers := make(chan struct{}, 10)
			replicas = append(replicas, func(ctx context.Context, takes time.Duration) error { return weir.Do(ctx, l, backend(workers, takes)) })
		}
		rng := rand.New(rand.NewPCG(2, 2))
		var all sync.WaitGroup
		var failed atomic.Int64
		const calls = 6000
		for range calls {
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second) / 210))
			takes := []time.Duration{time.Duration(rng.ExpFloat64() * 80e6), time.Duration(rng.ExpFloat64() * 80e6)}
			all.Go(func() {
				ctx, done := context.WithCancel(t.Context())
				defer done()
				errs := make(chan error, 2)
				for i, replica := range replicas {
					all.Go(func() { errs <- replica(ctx, takes[i]) })
				}
				err := <-errs
				if err != nil {
					err = <-errs // that of the other
				}
				if err != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		if n := failed.Load(); n > calls/50 {
			t.Errorf("%d of %d calls failed: want few", n, calls)
		}
	})
}

// Callers of one kind that leave at once refuse no others.
func TestPatienceOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(10)})
		workers := make(chan struct{}, 10)
		rng := rand.New(rand.NewPCG(3, 3))
		var all sync.WaitGroup
		var refused atomic.Int64
		sheddable := weir.WithClass(t.Context(), weir.Class{Priority: weir.Sheddable})
		for i := range 12_000 {
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second) / 375))
			takes := time.Duration(rng.ExpFloat64() * 80e6)
			all.Go(func() {
				if i%5 == 0 {
					if weir.Do(t.Context(), l, backend(workers, takes)) != nil {
						refused.Add(1)
					}
					return
				}
				ctx, leave := context.WithCancel(sheddable)
				defer time.AfterFunc(10*time.Millisecond, leave).Stop()
				defer leave()
				_ = weir.Do(ctx, l, backend(workers, takes))
			})
		}
		all.Wait()
		if n := refused.Load(); n > 12_000/5/50 {
			t.Errorf("%d of %d important requests refused: want few", n, 12_000/5)
		}
	})
}

// Callers that wait for a lock do not wait for the end of the work.
func TestWaitOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, only := range []bool{false, true} {
			l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(1), MaxWait: -1, WaitOnly: only})
			ask := func(patience, work time.Duration) (err error) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				p, err := l.Acquire(ctx, 1)
				time.Sleep(work)
				p.Release(weir.Success)
				return err
			}
			for range 20 {
				_ = ask(time.Hour, time.Minute)
			}
			go func() { _ = ask(time.Hour, time.Second) }()
			synctest.Wait()
			if err := ask(10*time.Second, 0); (err == nil) != only {
				t.Errorf("WaitOnly %v: work takes a minute, and there are ten seconds: %v", only, err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// Callers with a known deadline teach nothing about the others, also from a permit.
func TestDeadlinesTeachNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, dated := range []bool{false, true} {
			l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(1), MaxWait: -1})
			behind := func(ctx context.Context) (weir.Permit, error) { // a request that waits for ten seconds
				held := acquire(t, l, 1)
				time.AfterFunc(10*time.Second, func() { held.Release(weir.Success) })
				return l.Acquire(ctx, 1)
			}
			for range 3 {
				ctx, cancel := t.Context(), func() {}
				if dated {
					ctx, cancel = context.WithTimeout(ctx, time.Hour)
				}
				p, err := behind(ctx)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				p.Release(outcome.Gone)
				cancel()
			}
			p, err := behind(t.Context())
			p.Release(weir.Ignored)
			if (err == nil) != dated {
				t.Errorf("deadlines %v: %v", dated, err)
			}
			time.Sleep(time.Minute)
		}
	})
}
