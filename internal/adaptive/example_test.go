package adaptive_test

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/adaptive"
)

// A backend refuses everything, and its client soon sends fewer requests.
func ExampleThrottle() {
	a, err := adaptive.New(adaptive.Config{})
	if err != nil {
		panic(err)
	}
	now := time.Duration(0)
	for range 500 {
		now += 10 * time.Millisecond
		if a.Request(now, 0.5) { // a fixed chance
			a.Drop(now)
		}
	}
	fmt.Printf("p = %.2f, %d sent\n", a.Stats(now).P, a.Stats(now).Sent)
	for range 500 {
		a.Accept(now) // it is back
	}
	fmt.Printf("p = %.2f\n", a.Stats(now).P)
	// Output:
	// p = 0.90, 42 sent
	// p = 0.00
}

// A tenth of the requests may be retried.
func ExampleBudget() {
	b, err := adaptive.NewBudget(adaptive.BudgetConfig{MinPerSecond: -1})
	if err != nil {
		panic(err)
	}
	for range 20 {
		b.Request(0)
	}
	fmt.Println(b.Retry(0), b.Retry(0), b.Retry(0))
	// Output: true true false
}

// Twice as long each time, up to a second; how long exactly is a matter of
// chance.
func ExampleBackoff() {
	for retry := range 5 {
		fmt.Println(adaptive.Backoff(200*time.Millisecond, time.Second, retry, 0.5))
	}
	// Output:
	// 100ms
	// 200ms
	// 400ms
	// 500ms
	// 500ms
}
