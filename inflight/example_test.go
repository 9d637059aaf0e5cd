package inflight_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// Do runs work under the limit and tells the limiter how it went.
func Example() {
	lim, err := inflight.New(inflight.Config{}) // the limit finds itself
	if err != nil {
		panic(err)
	}
	err = weir.Do(context.Background(), lim, func(ctx context.Context) error {
		fmt.Println("working")
		return nil
	})
	fmt.Println(err)
	// Output:
	// working
	// <nil>
}

// A refusal comes at once, and says why.
func ExampleLimiter_Acquire() {
	lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), Queue: -1})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	permit, err := lim.Acquire(ctx, 1)
	if err != nil {
		panic(err)
	}
	defer permit.Release(weir.Ignored)

	_, err = lim.Acquire(ctx, 1)
	fmt.Println(err, errors.Is(err, weir.ErrRejected))
	// Output: rejected: over_limit true
}
