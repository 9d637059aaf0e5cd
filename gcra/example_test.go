package gcra_test

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/gcra"
)

// Any number of buckets share a quota; each is a word.
func ExampleQuota() {
	quota := gcra.Per(5, time.Minute, 2)
	var alice, bob gcra.Bucket // full
	alice, d := quota.Take(alice, 0, 2)
	fmt.Println(d.OK, d.Remaining)
	_, d = quota.Take(alice, 2*time.Second, 1)
	fmt.Println(d.OK, d.RetryAfter)
	_, d = quota.Take(bob, 2*time.Second, 1)
	fmt.Println(d.OK, d.Remaining)
	// Output:
	// true 0
	// false 10s
	// true 1
}

// A bucket that is full again is no different from the zero Bucket.
func ExampleBucket() {
	quota := gcra.Per(10, time.Second, 3)
	b, _ := quota.Take(0, 0, 1)
	fmt.Println(quota.Full(b, 99*time.Millisecond), quota.Full(b, 100*time.Millisecond))
	// Output: false true
}

// Whoever waits behind one that leaves moves forward.
func ExampleQueue() {
	quota := gcra.Per(1, time.Second, 1)
	var queue gcra.Queue[string]
	b, _ := quota.Take(0, 0, 1) // now it is empty
	join := func(who string) *gcra.Waiter[string] {
		b, _, _ = quota.Reserve(b, 0, 1, time.Minute)
		return queue.Join(&quota, b, 1, who)
	}
	alice := join("alice")
	join("bob")
	down, _ := queue.Cancel(&quota, 0, alice, b)
	b -= down
	at, _ := queue.Deadline(&quota)
	who, _ := queue.Next(&quota, at)
	fmt.Println(who, at)
	// Output: bob 1s
}

// A Waiter can leave, once.
func ExampleWaiter() {
	quota := gcra.Per(1, time.Second, 1)
	var queue gcra.Queue[string]
	b, _, _ := quota.Reserve(0, 0, 1, 0)
	b, wait, _ := quota.Reserve(b, 0, 1, time.Minute)
	w := queue.Join(&quota, b, 1, "alice")
	fmt.Println(w.Who, wait)
	down, ok := queue.Cancel(&quota, 0, w, b)
	fmt.Println(quota.Ready(b-down, 0), ok)
	_, ok = queue.Cancel(&quota, 0, w, b-down)
	fmt.Println(ok)
	// Output:
	// alice 1s
	// 0s true
	// false
}

// Who holds a promise keeps its instant, so of what is given back before it
// only as much is refunded as leaves it that.
func ExamplePromise() {
	quota := gcra.Per(1, time.Second, 1)
	var queue gcra.Queue[string]
	b, _, _ := quota.Reserve(0, 0, 1, 0)
	promise := func() (p gcra.Promise) {
		var wait time.Duration
		b, wait, _ = quota.Reserve(b, 0, 1, time.Minute)
		return queue.Promise(&quota, 0, b, 1, wait)
	}
	first, second := promise(), promise()
	for _, p := range []gcra.Promise{first, second} {
		down, _ := queue.Withdraw(&quota, 0, p, 1, b)
		b -= down
		fmt.Println(quota.Tokens(b, 0))
	}
	// Output:
	// -2
	// 0
}
