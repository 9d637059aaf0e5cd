package waitq_test

import (
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/waitq"
)

// A call behind one that leaves moves forward.
func ExampleTokens() {
	quota := gcra.Per(1, time.Second, 1)
	var queue waitq.Tokens[string]
	b, _ := quota.Take(0, 0, 1) // now it is empty
	join := func(who string) *waitq.Turn[string] {
		b, _, _ = quota.Reserve(b, 0, 1, time.Minute)
		return queue.Join(&quota, b, 1, who)
	}
	alice := join("alice")
	join("bob")
	down, _ := queue.Cancel(&quota, 0, alice, b)
	b -= down
	at := queue.Deadline(&quota)
	who, _ := queue.Next(&quota, at)
	fmt.Println(who, at)
	// Output: bob 1s
}

// A call can leave, once.
func ExampleTurn() {
	quota := gcra.Per(1, time.Second, 1)
	var queue waitq.Tokens[string]
	b, _, _ := quota.Reserve(0, 0, 1, 0)
	b, wait, _ := quota.Reserve(b, 0, 1, time.Minute)
	w := queue.Join(&quota, b, 1, "alice")
	fmt.Println(w.Value, wait)
	down, ok := queue.Cancel(&quota, 0, w, b)
	_, wait, _ = quota.Reserve(b-down, 0, 0, weir.Never)
	fmt.Println(wait, ok)
	_, ok = queue.Cancel(&quota, 0, w, b-down)
	fmt.Println(ok)
	// Output:
	// alice 1s
	// 0s true
	// false
}

// A call that holds a promise keeps its instant. Of the tokens given back before
// it, only as many are refunded as leave it that instant.
func ExamplePromise() {
	quota := gcra.Per(1, time.Second, 1)
	var queue waitq.Tokens[string]
	b, _, _ := quota.Reserve(0, 0, 1, 0)
	promise := func() (p waitq.Promise) {
		var wait time.Duration
		b, wait, _ = quota.Reserve(b, 0, 1, time.Minute)
		return queue.Promise(&quota, 0, b, 1, wait)
	}
	first, second := promise(), promise()
	for _, p := range []waitq.Promise{first, second} {
		b -= queue.Withdraw(&quota, 0, p, 1, b)
		fmt.Println(quota.Tokens(b, 0))
	}
	// Output:
	// -2
	// 0
}
