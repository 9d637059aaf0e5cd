//go:build system

package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

func leases(t testing.TB, rdb redis.UniversalClient, limit int, cfg redislimit.LeaseConfig) *redislimit.Leases {
	t.Helper()
	l, err := redislimit.NewLeases(rdb, limit, cfg)
	testrig.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// hurried is a LeaseConfig for tests of decisions by the server, without a wait.
var hurried = redislimit.LeaseConfig{Away: redislimit.Deny, Instances: 1, Timeout: 20 * time.Second, MaxWait: -1, TTL: time.Hour}

// rejected checks that the error is a rejection for a reason.
func rejected(t testing.TB, err error, why weir.Reason) {
	t.Helper()
	if r, ok := errors.AsType[*weir.Rejection](err); !ok || r.Reason != why {
		t.Errorf("%v: want %v", err, why)
	}
}

// units waits until a key has units in the server.
func units(t testing.TB, rdb *redis.Client, key string, n int64) {
	t.Helper()
	redistest.Until(t, fmt.Sprint(n, " units are held"), func() error {
		if got := rdb.ZCount(context.Background(), "weir:lease:"+key, "0", "4000000000000000").Val(); got != n { // without the fencing token and callers that wait
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

func TestLeases(t *testing.T) {
	ctx := context.Background()
	for _, engine := range redistest.Engines {
		t.Run(engine, func(t *testing.T) {
			server := redistest.Start(t, engine)
			rdb := client(t, server)
			a, b := leases(t, rdb, 3, hurried), leases(t, client(t, server), 3, hurried)
			two, err := a.For("key").Acquire(ctx, 2)
			testrig.Must(t, err)
			if _, err = b.For("key").Acquire(ctx, 2); err == nil {
				t.Fatal("four units of three")
			}
			rejected(t, err, weir.OverLimit)
			one, err := b.Hold(ctx, "key", 1)
			testrig.Must(t, err)
			units(t, rdb, "key", 3)
			if _, err := b.Hold(ctx, "other", 3); err != nil {
				t.Errorf("another key: %v", err)
			}
			_, err = b.For("key").Acquire(ctx, 4)
			rejected(t, err, weir.OverLimit)
			two.Release(weir.Success)
			units(t, rdb, "key", 1)
			next, err := a.Hold(ctx, "key", 2)
			testrig.Must(t, err)
			if next.Token <= one.Token {
				t.Errorf("fencing tokens %d, then %d", one.Token, next.Token)
			}
			if next.Release(weir.Success); next.Err() == nil {
				t.Error("the context of a Held that was released has not ended")
			}
			_ = b.Close()
			units(t, rdb, "key", 0)
			if cause := context.Cause(one); !errors.Is(cause, weir.ErrRejected) {
				t.Errorf("after Close, the context of a Held has the cause %v", cause)
			}
			_, err = b.For("key").Acquire(ctx, 1)
			rejected(t, err, weir.Closed)
		})
	}
}

// Callers of several programs never hold more than the limit, by a count of their own.
func TestLeasesKeepToTheLimit(t *testing.T) {
	server := redistest.Start(t, "redis-server")
	cfg := hurried
	cfg.MaxWait = time.Hour
	var holding, most, done atomic.Int64
	var group sync.WaitGroup
	for range 3 {
		l := leases(t, client(t, server), 3, cfg)
		for range 5 {
			group.Go(func() {
				for range 10 {
					p, err := l.For("key").Acquire(context.Background(), 1)
					if err != nil {
						t.Error(err)
						return
					}
					n := holding.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					time.Sleep(time.Millisecond)
					holding.Add(-1)
					p.Release(weir.Success)
					done.Add(1)
				}
			})
		}
	}
	group.Wait()
	if most.Load() > 3 || done.Load() != 150 {
		t.Errorf("%d held at once, %d leases: want at most 3, and 150", most.Load(), done.Load())
	}
}

// What a dead program has held is free after its time. What a living one holds is not.
func TestLeaseExpires(t *testing.T) {
	ctx := context.Background()
	rdb := client(t, redistest.Start(t, "redis-server"))
	cfg := hurried
	cfg.MaxWait, cfg.TTL = time.Minute, 500*time.Millisecond
	l := leases(t, rdb, 1, cfg)
	dead := redisscript.Lease{Limits: []int{1}, TTL: 300 * time.Millisecond, ID: "dead", N: 1}
	testrig.Must(t, redis.NewScript(redisscript.Leases).Run(ctx, rdb, []string{"weir:lease:key"}, dead.Args(redisscript.TakeLease)...).Err())
	h, err := l.Hold(ctx, "key", 1)
	testrig.Must(t, err)
	within, stop := context.WithTimeout(ctx, 2*time.Second) // four times the time to live
	defer stop()
	if other, err := leases(t, rdb, 1, cfg).Hold(within, "key", 1); err == nil {
		redistest.Until(t, "a holder knows that another has its lease", func() error {
			if h.Err() == nil {
				return fmt.Errorf("tokens %d and %d", h.Token, other.Token)
			}
			return nil
		})
		return // the machine has stalled for longer than the lease
	}
	if h.Err() != nil {
		t.Errorf("the lease ended while it was renewed: %v", context.Cause(h))
	}
}

// A holder that cannot reach the server loses its lease when the server gives it to others,
// however long a call may take.
func TestLeaseLostInTime(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Start(t, "redis-server"))
	cfg := hurried
	cfg.Timeout, cfg.TTL = time.Hour, 300*time.Millisecond
	l := leases(t, impatient(t, proxy.Addr), 1, cfg)
	h, err := l.Hold(context.Background(), "key", 1)
	testrig.Must(t, err)
	proxy.Silence(true)
	select {
	case <-h.Done():
	case <-time.After(30 * time.Second):
	}
	if cause := context.Cause(h); cause != redislimit.ErrLost {
		t.Errorf("the cause is %v, want ErrLost", cause)
	}
}

// The permissions that docs/redis.md names suffice.
func TestLeasePermissions(t *testing.T) {
	server, ctx := redistest.Start(t, "redis-server"), context.Background()
	if err := client(t, server).Do(ctx, "ACL", "SETUSER", "app", "on", ">secret", "~weir:*", "+eval", "+evalsha", "+time",
		"+zadd", "+zrem", "+zcount", "+zscore", "+zrange", "+zrank", "+zrangebyscore", "+zremrangebyscore", "+pttl", "+pexpire").Err(); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "app", Password: "secret"})
	defer rdb.Close()
	l := leases(t, rdb, 1, hurried)
	h, err := l.Hold(ctx, "key", 1)
	testrig.Must(t, err)
	_, err = l.Hold(ctx, "key", 1)
	rejected(t, err, weir.OverLimit)
	h.Release(weir.Success)
	units(t, client(t, server), "key", 0)
}

// If the server forgets a lease, a Held is lost, and the work of a Permit counts again.
func TestLeaseForgotten(t *testing.T) {
	ctx := context.Background()
	rdb := client(t, redistest.Start(t, "redis-server"))
	cfg := hurried
	cfg.TTL = 300 * time.Millisecond
	l := leases(t, rdb, 2, cfg)
	p, err := l.For("permit").Acquire(ctx, 2)
	testrig.Must(t, err)
	h, err := l.Hold(ctx, "held", 1)
	testrig.Must(t, err)
	testrig.Must(t, rdb.FlushAll(ctx).Err())
	select {
	case <-h.Done():
	case <-time.After(30 * time.Second):
	}
	if cause := context.Cause(h); cause != redislimit.ErrLost {
		t.Errorf("the cause is %v, want ErrLost", cause)
	}
	units(t, rdb, "permit", 2)
	p.Release(weir.Success)
	units(t, rdb, "permit", 0)
	units(t, rdb, "held", 0)
	if s := l.Stats(); s.Lost != 1 || s.Held != 0 {
		t.Errorf("%+v, want one lost", s)
	}
}

// While the server is away, Acquire decides as configured, and Hold denies. When it is back,
// it is told what is held.
func TestLeasesAway(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t, "redis-server")
	server.Kill()
	for away, want := range map[redislimit.Away]int{redislimit.Deny: 0, redislimit.Share: 2, redislimit.Allow: 3} {
		l := leases(t, impatient(t, server.Addr), 4, redislimit.LeaseConfig{Away: away, Instances: 2, Timeout: time.Second, TTL: 300 * time.Millisecond})
		_, err := l.Hold(ctx, "key", 1)
		rejected(t, err, weir.Closed)
		got := 0
		for range 3 {
			p, err := l.For(fmt.Sprint("key:", away)).Acquire(ctx, 1)
			if err != nil {
				rejected(t, err, weir.Closed)
				continue
			}
			defer p.Release(weir.Success)
			got++
		}
		if got != want {
			t.Errorf("%v: %d units, want %d", away, got, want)
		}
	}
	server.Run()
	rdb := client(t, server)
	units(t, rdb, fmt.Sprint("key:", redislimit.Share), 2)
	units(t, rdb, fmt.Sprint("key:", redislimit.Allow), 3)
}
