package throttle_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/throttle"
)

// A backend refuses everything. Most of a thousand requests never reach it.
func ExampleLimiter() {
	lim, err := throttle.New(throttle.Config{})
	if err != nil {
		panic(err)
	}
	reached := 0
	for range 1000 {
		err = weir.Do(context.Background(), lim, func(context.Context) error {
			reached++
			return weir.ErrRejected
		})
	}
	fmt.Println(reached < 500, lim.Stats().Requests, errors.Is(err, weir.ErrRejected))
	// Output: true 1000 true
}

// A rejection is retried, once its RetryAfter and some jitter have passed.
func ExampleRetrier_Do() {
	retrier, err := throttle.NewRetrier(throttle.RetryConfig{}, nil)
	if err != nil {
		panic(err)
	}
	attempts := 0
	err = retrier.Do(context.Background(), func(context.Context) error {
		if attempts++; attempts < 3 {
			return weir.Reject(weir.QueueFull, 0)
		}
		return nil
	})
	fmt.Println(attempts, err)
	// Output: 3 <nil>
}
