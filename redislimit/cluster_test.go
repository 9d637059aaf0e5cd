//go:build system

package redislimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

// cluster starts a Cluster of three masters and their replicas, with a client.
func cluster(t *testing.T) (*redis.ClusterClient, *redistest.Cluster) {
	c := redistest.StartCluster(t, "redis-server", 3)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true, DialTimeout: time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, c
}

// replicated waits until the replica of a master has all that was written before; key is one
// of the master's slots.
func replicated(t *testing.T, master *redistest.Server, key string) {
	t.Helper()
	ctx := context.Background()
	conn := client(t, master).Conn() // WAIT counts the writes of its own connection
	defer conn.Close()
	if err := conn.Set(ctx, key, "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(ctx, 1, 20*time.Second).Result(); n != 1 {
		t.Fatal(n, err)
	}
}

// In a Cluster every key is decided by its master. If a master dies, its keys are decided
// here until its replica has taken over, and the keys of other masters go on.
func TestCluster(t *testing.T) {
	rdb, c := cluster(t)
	l := limiter(t, rdb, gcra.Per(1, time.Hour, 10), redislimit.Config{Away: redislimit.Share, Instances: 2, Known: -1, Timeout: 2 * time.Second})
	const first, last = "foo{urea}", "foo{gmga}" // of the slots 0 and 16383
	for i := range 100 {
		key := fmt.Sprint("key:", i)
		redistest.Until(t, "decided by a master", func() error {
			if d := take(t, l, key, 1); d.Step != redislimit.Exact {
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
		if d := take(t, l, key, 0); d.Step != redislimit.Exact || d.Remaining > 9 || d.Remaining < 8 {
			t.Errorf("%s: %+v", key, d)
		}
	}
	reach(t, l, first, redislimit.Exact)
	reach(t, l, last, redislimit.Exact)
	take(t, l, first, 6)
	replicated(t, c.Masters[0], "other"+first)
	c.Masters[0].Kill()
	reach(t, l, first, redislimit.Shared)
	if d := take(t, l, last, 1); d.Step != redislimit.Exact {
		t.Errorf("a key of another master: %+v", d)
	}
	reach(t, l, first, redislimit.Exact)
	if d := take(t, l, first, 0); d.Remaining > 4 {
		t.Errorf("after the failover: %+v, want at most 4 to remain", d)
	}
}

// Over Sentinel, the limiter follows the master.
func TestSentinel(t *testing.T) {
	pair := redistest.StartPair(t, "redis-server")
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.MasterName, SentinelAddrs: []string{pair.Sentinel.Addr}, ContextTimeoutEnabled: true, DialTimeout: time.Second,
	})
	defer rdb.Close()
	l := limiter(t, rdb, gcra.Per(1, time.Hour, 10), redislimit.Config{Away: redislimit.Share, Instances: 2, Known: -1, Timeout: 2 * time.Second})
	reach(t, l, "key", redislimit.Exact)
	take(t, l, "key", 6)
	replicated(t, pair.Master, "other")
	pair.Master.Kill()
	reach(t, l, "key", redislimit.Exact)
	if d := take(t, l, "key", 0); d.Remaining > 4 {
		t.Errorf("after the failover: %+v, want at most 4 to remain", d)
	}
}
