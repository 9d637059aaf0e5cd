package rate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// What comes too often is dropped.
func ExampleLimiter_Allow() {
	lim := rate.NewLimiter(rate.Every(time.Hour), 2) // two at once, then one an hour
	for range 3 {
		fmt.Println(lim.Allow())
	}
	// Output:
	// true
	// true
	// false
}

// An event that comes too early waits, unless its turn would come too late.
func ExampleLimiter_Wait() {
	lim := rate.NewLimiter(rate.Every(time.Hour), 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(lim.Wait(ctx))
	fmt.Println(lim.WaitN(ctx, 2))
	err := lim.Wait(ctx) // the next turn is in an hour
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// <nil>
	// rate: Wait(n=2) exceeds limiter's burst 1
	// true
}

// A Rejection tells when to come back.
func ExampleLimiter_WaitN() {
	lim := rate.New(gcra.Per(1, time.Hour, 5), rate.Config{Queue: -1}) // no call waits
	err := lim.WaitN(context.Background(), 6)
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		fmt.Println(r, r.RetryAfter == weir.Never)
	}
	// Output: rejected: over_burst true
}

// Take has what the headers of an answer need.
func ExampleLimiter_Take() {
	lim := rate.New(gcra.Per(60, time.Hour, 10), rate.Config{})
	fmt.Println(lim.Take(8).Remaining)
	d := lim.Take(8)
	fmt.Println(d.OK, d.Remaining, d.RetryAfter.Round(time.Minute), d.ResetAfter.Round(time.Minute))
	// Output:
	// 2
	// false 2 6m0s 8m0s
}

// What a call to a language model costs is known when it has ended: reserve an
// estimate, and settle.
func ExampleLimiter_Settle() {
	tokens := rate.New(gcra.Per(10_000, 24*time.Hour, 10_000), rate.Config{})
	const estimate = 4000 // the prompt, and the longest answer
	if !tokens.AllowN(time.Now(), estimate) {
		fmt.Println("later")
		return
	}
	fmt.Printf("%.0f\n", tokens.Tokens())
	tokens.Settle(estimate, 1500) // as the answer says
	fmt.Printf("%.0f\n", tokens.Tokens())
	// Output:
	// 6000
	// 8500
}

// A line in the log for the first failures, and for every tenth after them.
func ExampleSometimes() {
	often := rate.Sometimes{First: 2, Every: 10}
	for i := range 25 {
		often.Do(func() { fmt.Println("failure", i) })
	}
	// Output:
	// failure 0
	// failure 1
	// failure 10
	// failure 20
}

// Two limits at once: what one denies costs the other nothing.
func ExampleLimiter_Acquire() {
	perSecond := rate.New(gcra.Per(10, time.Second, 3), rate.Config{})
	perDay := rate.New(gcra.Per(1000, 24*time.Hour, 1000), rate.Config{})
	both := weir.Chain(perSecond, perDay)
	for _, n := range []int{2, 4} {
		_, err := both.Acquire(context.Background(), n)
		fmt.Println(err)
	}
	fmt.Printf("%.0f\n", perDay.Tokens())
	// Output:
	// <nil>
	// rejected: over_burst
	// 998
}

// A rate is a count in a period, and a burst.
func ExampleNew() {
	lim := rate.New(gcra.Per(100, time.Minute, 20), rate.Config{
		Queue:   50,              // calls that wait at most,
		MaxWait: 2 * time.Second, // and for how long
	})
	fmt.Printf("%.3f a second, burst %d\n", lim.Limit(), lim.Burst())
	// Output: 1.667 a second, burst 20
}

// A Limit is a number a second; Every makes one of an interval.
func ExampleLimit() {
	fmt.Println(rate.Every(10*time.Millisecond), rate.Every(time.Minute) == rate.Limit(1.0/60))
	fmt.Println(rate.NewLimiter(rate.Inf, 0).Allow()) // whatever the burst
	// Output:
	// 100 true
	// true
}

// A call that would wait too long is refused at once, and told when to come back.
func ExampleConfig() {
	lim := rate.New(gcra.Per(1, time.Minute, 1), rate.Config{MaxWait: time.Second})
	lim.Allow()
	err := lim.Wait(context.Background())
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		fmt.Println(r.Reason, r.RetryAfter.Round(10*time.Second)) // rounded up a little
	}
	// Output: over_rate 1m0s
}
