// Package throughput measures how many decisions a second a Decider makes in this process.
package throughput

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Load is a number of goroutines that ask for tokens, one at a time, of a number of keys in
// turn.
type Load struct{ Goroutines, Keys int }

// Loads are the rows of a table: one goroutine, as many as run at once, and a hundred; one key, a
// hundred, and more than a cache of the processor holds.
func Loads() (all []Load) {
	for _, goroutines := range []int{1, runtime.GOMAXPROCS(0), 100} {
		if len(all) > 0 && all[len(all)-1].Goroutines == goroutines {
			continue
		}
		for _, keys := range []int{1, 100, 100_000} {
			all = append(all, Load{goroutines, keys})
		}
	}
	return all
}

// A Result is a measurement of a Load.
type Result struct {
	Load
	Decisions, Allowed uint64
	Took               time.Duration
}

// PerSecond returns the decisions a second of all goroutines together.
func (r Result) PerSecond() float64 { return float64(r.Decisions) / r.Took.Seconds() }

// Each returns the time between two decisions.
func (r Result) Each() time.Duration { return r.Took / time.Duration(max(r.Decisions, 1)) }

// AllowedShare returns the share of decisions that allowed the request.
func (r Result) AllowedShare() float64 { return float64(r.Allowed) / float64(max(r.Decisions, 1)) }

// round is the number of decisions between two checks of whether the time is over.
const round = 256

// Measure asks d for a time. Every goroutine begins at another key. The error is the first error of d,
// or that of ctx.
func Measure(ctx context.Context, d decider.Decider, load Load, takes time.Duration) (Result, error) {
	keys := make([]string, load.Keys)
	for i := range keys {
		keys[i] = fmt.Sprintf("benchmark-%d", i)
	}
	var over atomic.Bool
	var decisions, allowed atomic.Uint64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for g := range load.Goroutines {
		all.Go(func() {
			asked, given, err := ask(ctx, d, keys, g*len(keys)/load.Goroutines, &over)
			decisions.Add(asked)
			allowed.Add(given)
			if err != nil {
				failed.CompareAndSwap(nil, &err)
				over.Store(true)
			}
		})
	}
	timer := time.AfterFunc(takes, func() { over.Store(true) })
	defer timer.Stop()
	all.Wait()
	r := Result{Load: load, Decisions: decisions.Load(), Allowed: allowed.Load(), Took: time.Since(began)}
	if err := failed.Load(); err != nil {
		return r, *err
	}
	return r, ctx.Err()
}

// ask asks for one token of each key in turn, from a place in keys, until over is set.
func ask(ctx context.Context, d decider.Decider, keys []string, at int, over *atomic.Bool) (asked, allowed uint64, err error) {
	req, v := decider.Request{N: 1}, decider.Verdict{}
	for first := true; first || !over.Load() && ctx.Err() == nil; first = false { // a round at least, also on a busy machine
		for range round {
			req.Key = keys[at]
			if at++; at == len(keys) {
				at = 0
			}
			if err := d.Decide(ctx, &req, &v); err != nil {
				return asked, allowed, err
			}
			if asked++; v.OK {
				allowed++
			}
		}
	}
	return asked, allowed, nil
}
