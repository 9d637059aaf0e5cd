package inflight_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// Observe makes a span of each request, here with a log in place of a tracer: the
// wait and the error when the decision is made, the outcome at the end.
func ExampleConfig_observe() {
	lim, err := inflight.New(inflight.Config{
		Algorithm: limit.Fixed(1), Queue: -1,
		Observe: func(ctx context.Context, n int, waited time.Duration, err error) func(weir.Outcome) {
			// start := time.Now().Add(-waited)
			// _, span := tracer.Start(ctx, "inflight", trace.WithTimestamp(start))
			class := weir.ClassOf(ctx)
			if err != nil {
				fmt.Println(class.Tenant, err) // span.RecordError(err); span.End()
				return nil
			}
			return func(o weir.Outcome) {
				fmt.Println(class.Tenant, "admitted,", o) // span.SetAttributes(...); span.End()
			}
		},
	})
	if err != nil {
		panic(err)
	}
	ctx := weir.WithClass(context.Background(), weir.Class{Tenant: "acme"})
	permit, err := lim.Acquire(ctx, 1)
	if err != nil {
		panic(err)
	}
	_, _ = lim.Acquire(ctx, 1)
	permit.Release(weir.Success)
	// Output:
	// acme rejected: over_limit
	// acme admitted, success
}
