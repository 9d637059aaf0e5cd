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
	fmt.Println(b <= quota.Level(99*time.Millisecond), b <= quota.Level(100*time.Millisecond))
	// Output: false true
}
