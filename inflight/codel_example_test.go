package inflight_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

func work(context.Context) error { return nil }

// A queue that CoDel keeps short, in place of github.com/bohde/codel's Lock:
// docs/codel.md goes through it line by line.
func Example_codel() {
	lim, err := inflight.New(inflight.Config{
		Queue:      100,
		Algorithm:  limit.Fixed(10),
		Discipline: inflight.CoDel2012,
		Target:     5 * time.Millisecond,
		Interval:   10 * time.Millisecond,
		MaxWait:    -1,
	})
	if err != nil {
		panic(err)
	}

	serve := func(ctx context.Context) error {
		permit, err := lim.Acquire(ctx, 1)
		if err != nil {
			return err // a *weir.Rejection, or ctx's
		}
		defer permit.Release(weir.Success)
		return work(ctx)
	}

	fmt.Println(serve(context.Background()))

	// The permit tells the limiter how the work went, if Do may judge its
	// error.
	serve = func(ctx context.Context) error {
		return weir.Do(ctx, lim, work)
	}

	fmt.Println(serve(context.Background()))
	// Output:
	// <nil>
	// <nil>
}

// The important first, in place of github.com/bohde/codel's PLock.
func Example_priority() {
	lim, err := inflight.New(inflight.Config{
		Queue:      100,
		Algorithm:  limit.Fixed(10),
		Discipline: inflight.CoDel2012,
		Target:     5 * time.Millisecond,
		Interval:   10 * time.Millisecond,
		MaxWait:    -1,
	})
	if err != nil {
		panic(err)
	}

	serve := func(ctx context.Context, p weir.Priority) error {
		permit, err := lim.Acquire(weir.WithClass(ctx, weir.Class{Priority: p}), 1)
		if err != nil {
			return err
		}
		defer permit.Release(weir.Success)
		return work(ctx)
	}

	fmt.Println(serve(context.Background(), weir.CriticalPlus))
	// Output: <nil>
}
