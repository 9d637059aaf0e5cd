package flight_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/flight"
)

// The first caller leaves. The work goes on for the second, and is done once.
func ExampleGroup_Do() {
	var group flight.Group[string, string]
	loads, loading := 0, make(chan bool, 1)
	load := func(ctx context.Context) (string, error) {
		loads++
		loading <- true
		select {
		case <-time.After(200 * time.Millisecond):
			return "Ada", nil
		case <-ctx.Done(): // no caller waits any more
			return "", ctx.Err()
		}
	}

	hasty, cancel := context.WithCancel(context.Background())
	left := make(chan error)
	go func() {
		_, _, err := group.Do(hasty, "user:1", load)
		left <- err
	}()
	<-loading
	context.AfterFunc(hasty, func() { fmt.Println("the first caller leaves:", <-left) })
	time.AfterFunc(50*time.Millisecond, cancel)

	name, coalesced, err := group.Do(context.Background(), "user:1", load)
	fmt.Println(name, coalesced, err, loads)
	// Output:
	// the first caller leaves: context canceled
	// Ada true <nil> 1
}
