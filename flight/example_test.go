package flight_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/flight"
)

// The first caller leaves. The work goes on for the second, and is done once.
func ExampleGroup_Do() {
	var group flight.Group[string, string]
	loads := 0
	load := func(ctx context.Context) (string, error) {
		loads++
		select {
		case <-time.After(200 * time.Millisecond):
			return "Ada", nil
		case <-ctx.Done(): // no caller waits any more
			return "", ctx.Err()
		}
	}

	hasty, cancel := context.WithCancel(context.Background())
	first := group.DoChan(hasty, "user:1", load)
	second := group.DoChan(context.Background(), "user:1", load)
	cancel()
	r := <-first
	fmt.Println(errors.Is(r.Err, context.Canceled))

	name, coalesced, err := group.Do(context.Background(), "user:1", load)
	fmt.Println(name, coalesced, err)
	fmt.Println((<-second).Val, loads)
	// Output:
	// true
	// Ada true <nil>
	// Ada 1
}

// Two things are asked for at the same time, and each waits for its own.
func ExampleGroup_DoChan() {
	group := flight.Group[int, string]{Timeout: time.Second}
	ctx := context.Background()
	square := func(n int) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return fmt.Sprint(n, "² = ", n*n), nil }
	}
	three, four := group.DoChan(ctx, 3, square(3)), group.DoChan(ctx, 4, square(4))
	fmt.Println((<-three).Val)
	fmt.Println((<-four).Val)
	// Output:
	// 3² = 9
	// 4² = 16
}
