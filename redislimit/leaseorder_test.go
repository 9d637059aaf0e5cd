//go:build system

package redislimit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

// waiters waits until some callers wait for a lease of a key.
func waiters(t testing.TB, rdb *redis.Client, key string, n int64) {
	t.Helper()
	redistest.Until(t, fmt.Sprint(n, " callers wait"), func() error {
		if got := rdb.ZCount(context.Background(), "weir:lease:"+key, "-inf", "-4503599627370497").Val(); got != n {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

// Callers of several programs are granted leases in the order in which they came. A caller that
// leaves does not delay the others.
func TestLeaseOrder(t *testing.T) {
	server := redistest.Start(t, "redis-server")
	rdb := client(t, server)
	cfg := hurried
	cfg.MaxWait, cfg.Timeout = time.Hour, time.Minute // a caller that does not leave keeps its place for that long
	programs := []*redislimit.Leases{leases(t, rdb, 2, cfg), leases(t, client(t, server), 2, cfg), leases(t, client(t, server), 2, cfg)}
	first, err := programs[0].For("key").Acquire(context.Background(), 2)
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan int, 8)
	var group sync.WaitGroup
	impatient, leave := context.WithCancel(context.Background())
	for i := range 8 {
		ctx := context.Background()
		if i == 3 {
			ctx = impatient
		}
		group.Go(func() {
			p, err := programs[i%3].For("key").Acquire(ctx, 2)
			if err != nil {
				if i != 3 {
					t.Error(err)
				}
				return
			}
			granted <- i
			p.Release(weir.Success)
		})
		waiters(t, rdb, "key", int64(i+1))
	}
	leave()
	waiters(t, rdb, "key", 7)
	first.Release(weir.Success)
	group.Wait()
	close(granted)
	var order []int
	for i := range granted {
		order = append(order, i)
	}
	if want := []int{0, 1, 2, 4, 5, 6, 7}; !slices.Equal(order, want) {
		t.Errorf("the order of grants is %v, want %v", order, want)
	}
	waiters(t, rdb, "key", 0)
}

// The server knows how many callers wait, and turns away more than it may have.
func TestLeaseQueueFull(t *testing.T) {
	rdb := client(t, redistest.Start(t, "redis-server"))
	ask := func(id string) redisscript.LeaseReply {
		l := redisscript.Lease{Limits: []int{1}, TTL: time.Hour, ID: id, N: 1, Patience: time.Hour, MaxWaiting: 1000}
		return runLease(t, rdb, redisscript.TakeLease, &l, "weir:lease:key")
	}
	ask("holder")
	for i := range 1000 {
		if r := ask(fmt.Sprint(i)); r.QueueFull || r.Place != i {
			t.Fatalf("caller %d: %+v", i, r)
		}
	}
	cfg := hurried
	cfg.MaxWait = time.Minute
	_, err := leases(t, rdb, 1, cfg).For("key").Acquire(context.Background(), 1)
	rejected(t, err, weir.QueueFull)
	waiters(t, rdb, "key", 1000)
}
