//go:build !race

package grpclimit_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// A street is a server of methods that share a database of ten connections, with 40 ms a query,
// and its callers, which want 660 queries a second of the 250 that it can do.
type street struct {
	patience  time.Duration // after which callers leave
	deadlines bool          // and they tell it
	tries     int           // of a caller, at once after a failure
	goesOn    bool          // the work goes on after its caller has left
}

var methods = []struct {
	name    string
	rate    float64 // calls a second
	queries int
}{{"/shop.Shop/Light", 300, 0}, {"/shop.Shop/Medium", 270, 1}, {"/shop.Shop/Heavy", 78, 5}}

// play returns the useful calls a second of each method, and the queries that these made.
func (s *street) play(t *testing.T, perClass func(string) weir.Limiter) (calls [3]float64, queries float64) {
	t.Helper()
	const runs, measured = 30 * time.Second, 20 * time.Second
	var counts [3]atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		i, err := grpclimit.New(grpclimit.Config{PerClass: perClass})
		testrig.Must(t, err)
		server, pool := i.Unary(), make(chan struct{}, 10)
		start := time.Now()
		var all sync.WaitGroup
		for k, m := range methods {
			rng := rand.New(rand.NewPCG(1, uint64(k)))
			info := &grpc.UnaryServerInfo{FullMethod: m.name}
			handler := func(ctx context.Context, _ any) (any, error) { return nil, s.work(ctx, pool, m.queries) }
			call := func(ctx context.Context) error { _, err := server(ctx, nil, info, handler); return err }
			all.Go(func() {
				for time.Since(start) < runs {
					time.Sleep(time.Duration(rng.ExpFloat64() / m.rate * 1e9))
					all.Go(func() {
						if s.served(&all, call) && time.Since(start) > runs-measured && time.Since(start) <= runs {
							counts[k].Add(1)
						}
					})
				}
			})
		}
		all.Wait()
	})
	for k, m := range methods {
		calls[k] = float64(counts[k].Load()) / measured.Seconds()
		queries += calls[k] * float64(m.queries)
	}
	return calls, queries
}

// work waits for connections, and makes queries.
func (s *street) work(ctx context.Context, pool chan struct{}, queries int) error {
	left := ctx.Done()
	if s.goesOn {
		left = nil
	}
	for range queries {
		select {
		case pool <- struct{}{}:
			time.Sleep(40 * time.Millisecond)
			<-pool
		case <-left:
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return nil
}

// served reports whether a caller got what it wanted, in one of its tries.
func (s *street) served(all *sync.WaitGroup, call func(context.Context) error) bool {
	for range s.tries {
		ctx, leave := context.WithCancel(context.Background())
		if s.deadlines {
			ctx, leave = context.WithTimeout(context.Background(), s.patience)
		}
		answered := make(chan error, 1)
		all.Go(func() { answered <- call(ctx) })
		patience := time.NewTimer(s.patience)
		err := status.Error(codes.Canceled, "the caller has left")
		select {
		case err = <-answered:
		case <-patience.C:
		}
		patience.Stop()
		leave()
		if err == nil {
			return true
		}
	}
	return false
}

// Methods of different cost share a database, and callers leave: Auto has 0.94 of the queries of
// the best fixed limit, and no method less than half of its calls there.
func TestStreet(t *testing.T) {
	for name, s := range map[string]street{
		"a second":                       {patience: time.Second, tries: 1},
		"a second, deadlines, goes on":   {patience: time.Second, tries: 1, deadlines: true, goesOn: true},
		"half a second, three tries":     {patience: time.Second / 2, tries: 3},
		"two seconds, tries, it goes on": {patience: 2 * time.Second, tries: 3, goesOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			best, of := 0.0, [3]float64{}
			for _, n := range []int{8, 12} {
				calls, queries := s.play(t, func(string) weir.Limiter {
					l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(n), Depth: 3})
					testrig.Must(t, err)
					return l
				})
				if queries > best {
					best, of = queries, calls
				}
			}
			calls, queries := s.play(t, grpclimit.Auto)
			t.Logf("%.0f queries/s, calls %.3g/s; fixed: %.0f, %.3g", queries, calls, best, of)
			if queries < 0.94*best || calls[0] < of[0]/2 || calls[1] < of[1]/2 || calls[2] < of[2]/2 {
				t.Errorf("%.0f queries/s, calls %.3g/s: want 0.94 of %.0f, and half of %.3g", queries, calls, best, of)
			}
		})
	}
}
