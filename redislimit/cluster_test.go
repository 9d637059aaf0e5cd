//go:build external

package redislimit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

// cluster starts a Cluster of three masters, the first with a replica.
func cluster(t *testing.T) (rdb *redis.ClusterClient, servers []*redistest.Server) {
	ctx := context.Background()
	var addrs []string
	var admins []*redis.Client
	for i := range 4 {
		s := redistest.Start(t, "redis-server", "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0", "--cluster-port", redistest.FreePort(t))
		servers, addrs, admins = append(servers, s), append(addrs, s.Addr), append(admins, client(t, s))
		if i < 3 {
			if err := admins[i].ClusterAddSlotsRange(ctx, i*16384/3, (i+1)*16384/3-1).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range servers[1:] {
		host, port, _ := strings.Cut(s.Addr, ":")
		bus := client(t, s).ConfigGet(ctx, "cluster-port").Val()["cluster-port"]
		if err := admins[0].Do(ctx, "CLUSTER", "MEET", host, port, bus).Err(); err != nil {
			t.Fatal(err)
		}
	}
	id := admins[0].Do(ctx, "CLUSTER", "MYID").Val().(string)
	redistest.Until(t, "the replica follows", func() error { return admins[3].Do(ctx, "CLUSTER", "REPLICATE", id).Err() })
	redistest.Until(t, "the cluster is ready", func() error {
		for _, a := range admins {
			if info := a.ClusterInfo(ctx).Val(); !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:4") {
				return fmt.Errorf("%s", info)
			}
		}
		if info := admins[0].Info(ctx, "replication").Val(); !strings.Contains(info, "state=online") {
			return fmt.Errorf("%s", info)
		}
		return nil
	})
	rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true, DialTimeout: time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, servers
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
	rdb, servers := cluster(t)
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
	replicated(t, servers[0], "other"+first)
	servers[0].Kill()
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
	ctx := context.Background()
	master := redistest.Start(t, "redis-server")
	host, port, _ := strings.Cut(master.Addr, ":")
	redistest.Start(t, "redis-server", "--replicaof", host, port)
	if err := client(t, master).ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err(); err != nil {
		t.Fatal(err)
	}
	sentinel := redistest.StartSentinel(t, "main", master)
	redistest.Until(t, "the replica follows, and the sentinel knows it", func() error {
		info := client(t, master).Info(ctx, "replication").Val()
		known := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr})
		defer known.Close()
		replicas, err := known.Replicas(ctx, "main").Result()
		if err != nil || len(replicas) != 1 || !strings.Contains(info, "state=online") {
			return fmt.Errorf("%v, %v, %s", err, replicas, info)
		}
		return nil
	})
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{sentinel.Addr}, ContextTimeoutEnabled: true, DialTimeout: time.Second,
	})
	defer rdb.Close()
	l := limiter(t, rdb, gcra.Per(1, time.Hour, 10), redislimit.Config{Away: redislimit.Share, Instances: 2, Known: -1, Timeout: 2 * time.Second})
	reach(t, l, "key", redislimit.Exact)
	take(t, l, "key", 6)
	replicated(t, master, "other")
	master.Kill()
	reach(t, l, "key", redislimit.Exact)
	if d := take(t, l, "key", 0); d.Remaining > 4 {
		t.Errorf("after the failover: %+v, want at most 4 to remain", d)
	}
}
