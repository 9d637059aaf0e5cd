package cache_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

// The work is done once, and its result kept.
func ExampleCache_Get() {
	c, err := cache.New(cache.Config[string, int]{TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	length := func(_ context.Context, name string) (int, error) {
		fmt.Println("working on", name)
		return len(name), nil
	}
	for range 3 {
		n, err := c.Get(context.Background(), "gopher", length)
		fmt.Println(n, err)
	}
	// Output:
	// working on gopher
	// 6 <nil>
	// 6 <nil>
	// 6 <nil>
}

// The backend may be asked once an hour. What is asked for in between is an old
// value, if there is one, and no error.
func ExampleConfig_staleIfRejected() {
	c, err := cache.New(cache.Config[string, string]{TTL: time.Nanosecond, Refresh: cache.Refresh{StaleIfRejected: time.Hour, Limiter: rate.New(gcra.Per(1, time.Hour, 1), rate.Config{Queue: -1})}})
	if err != nil {
		fmt.Println(err)
		return
	}
	load := func(_ context.Context, key string) (string, error) { return "value of " + key, nil }
	for _, key := range []string{"a", "a", "b"} {
		v, status, err := c.Lookup(context.Background(), key, load)
		fmt.Printf("%s: %q, %v, rejected: %v\n", key, v, status, errors.Is(err, weir.ErrRejected))
	}
	// Output:
	// a: "value of a", filled, rejected: false
	// a: "value of a", stale, rejected: false
	// b: "", failed, rejected: true
}

// Each key may be fetched twice an hour, however often it is deleted.
func ExampleConfig_perKey() {
	lim, err := keyed.New[string](gcra.Per(2, time.Hour, 2), keyed.Config{Queue: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cache.New(cache.Config[string, int]{
		PerKey: func(key string) weir.Limiter { return lim.For(key) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	load := func(context.Context, string) (int, error) { return 42, nil }
	for _, key := range []string{"a", "a", "a", "b"} {
		v, err := c.Get(context.Background(), key, load)
		fmt.Println(key, v, err)
		c.Delete(key)
	}
	// Output:
	// a 42 <nil>
	// a 42 <nil>
	// a 0 rejected: over_rate
	// b 42 <nil>
}
