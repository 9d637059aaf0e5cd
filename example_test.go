package weir_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// one admits one unit at a time, without a queue.
func one() *inflight.Limiter {
	lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), Queue: -1})
	if err != nil {
		panic(err)
	}
	return lim
}

// Do runs work, or says why not.
func ExampleDo() {
	lim, ctx := one(), context.Background()
	err := weir.Do(ctx, lim, func(ctx context.Context) error {
		fmt.Println("working")
		again := weir.Do(ctx, lim, func(context.Context) error { return nil })
		fmt.Println("meanwhile:", again)
		return errors.New("no such user")
	})
	fmt.Println("the work's own error:", err)
	// Output:
	// working
	// meanwhile: rejected: over_limit
	// the work's own error: no such user
}

// A chain asks each limiter in turn. When one refuses, the earlier ones have
// their units back.
func ExampleChain() {
	outer, inner, ctx := one(), one(), context.Background()
	busy, err := inner.Acquire(ctx, 1)
	if err != nil {
		panic(err)
	}
	_, err = weir.Chain(outer, inner).Acquire(ctx, 1)
	fmt.Println(err, outer.Stats().Inflight)

	busy.Release(weir.Success)
	permit, err := weir.Chain(outer, inner).Acquire(ctx, 1)
	fmt.Println(err, outer.Stats().Inflight)
	permit.Release(weir.Success)
	// Output:
	// rejected: over_limit 0
	// <nil> 1
}

// The true cost of work is often known only once it has begun.
func ExamplePermit_Use() {
	lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(10)})
	if err != nil {
		panic(err)
	}
	permit, err := lim.Acquire(context.Background(), 8) // at most
	if err != nil {
		panic(err)
	}
	defer permit.Release(weir.Ignored)
	permit.Use(3)
	fmt.Println(lim.Stats().Inflight)
	// Output: 3
}
