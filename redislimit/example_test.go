package redislimit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/redislimit"
)

func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true, DialerRetries: 1})
	defer rdb.Close()
	lim, err := redislimit.New(rdb, gcra.Per(100, time.Minute, 20), redislimit.Config{
		Prefix: "api:requests:", Away: redislimit.Share, Instances: 4,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lim.Close()

	err = weir.Do(context.Background(), lim.For("user:7"), func(ctx context.Context) error {
		return nil // the work
	})
	fmt.Println(err)
}

// A lock for the work of one instance at a time.
func ExampleLeases_Hold() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true, DialerRetries: 1})
	defer rdb.Close()
	leases, err := redislimit.NewLeases(rdb, 1, redislimit.LeaseConfig{Away: redislimit.Deny, Instances: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Close()

	h, err := leases.Hold(context.Background(), "nightly", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Release(weir.Ignored)
	work := func(ctx context.Context, token uint64) { /* stops when ctx ends */ }
	work(h, h.Token)
}

// While the server is away, each of four instances allows a quarter of the limit.
func ExampleLimiter_Take() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	defer rdb.Close()
	lim, err := redislimit.New(rdb, gcra.Per(1, time.Hour, 20), redislimit.Config{Away: redislimit.Share, Instances: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lim.Close()

	for _, n := range []int{4, 1, 1} {
		d, err := lim.Take(context.Background(), "user:7", n)
		fmt.Println(d.OK, d.Remaining, d.Step, err)
	}
	// Output:
	// true 1 share <nil>
	// true 0 share <nil>
	// false 0 share <nil>
}
