//go:build system

package redis_rate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit/redis_rate"
)

// A step is a call and its result. Waits are rounded to minutes, so that the time that the
// test takes does not matter.
type step struct {
	call                 string // Allow, AllowN, AllowAtMost or Reset
	n                    int
	allowed, remaining   int
	retryAfter, resetAfr int // -1: none
}

func play(t *testing.T, l *redis_rate.Limiter, limit redis_rate.Limit, steps []step) {
	t.Helper()
	ctx := context.Background()
	for i, s := range steps {
		var res *redis_rate.Result
		var err error
		switch s.call {
		case "Allow":
			res, err = l.Allow(ctx, "key", limit)
		case "AllowN":
			res, err = l.AllowN(ctx, "key", limit, s.n)
		case "AllowAtMost":
			res, err = l.AllowAtMost(ctx, "key", limit, s.n)
		case "Reset":
			testrig.Must(t, l.Reset(ctx, "key"))
			continue
		}
		testrig.Must(t, err)
		retry := int(res.RetryAfter.Round(time.Minute).Minutes())
		if res.RetryAfter == -1 {
			retry = -1
		}
		got := step{s.call, s.n, res.Allowed, res.Remaining, retry, int(res.ResetAfter.Round(time.Minute).Minutes())}
		if got != s || res.Limit != limit {
			t.Errorf("step %d: %+v of %v, want %+v", i, got, res.Limit, s)
		}
	}
}

// What the documentation and the README of the original promise.
func TestDocumentedBehaviour(t *testing.T) {
	limit := redis_rate.PerHour(10) // an event in 6 minutes
	for name, steps := range map[string][]step{
		"Allow counts an event": {{"Allow", 0, 1, 9, -1, 6}, {"Allow", 0, 1, 8, -1, 12}},
		"Reset forgets":         {{"AllowN", 10, 10, 0, -1, 60}, {call: "Reset"}, {"Allow", 0, 1, 9, -1, 6}},
		"AllowN counts all or none": {
			{"AllowN", 2, 2, 8, -1, 12}, {"AllowN", 7, 7, 1, -1, 54}, {"AllowN", 2, 0, 0, 6, 54}, {"AllowN", 1, 1, 0, -1, 60}, {"AllowN", 1, 0, 0, 6, 60},
		},
		"More than the burst is denied, and tells a wait": {{"AllowN", 1000, 0, 0, 990 * 6, 0}, {"AllowN", 10, 10, 0, -1, 60}, {"AllowN", 1000, 0, 0, 1000 * 6, 60}},
		"No events are a look":                            {{"AllowN", 0, 0, 10, -1, 0}, {"Allow", 0, 1, 9, -1, 6}, {"AllowN", 0, 0, 9, -1, 6}, {"AllowAtMost", 0, 0, 9, -1, 6}},
		"AllowAtMost counts what there is": {
			{"AllowAtMost", 0, 0, 10, -1, 0}, {"AllowAtMost", 2, 2, 8, -1, 12}, {"AllowAtMost", 10, 8, 0, -1, 60}, {"AllowAtMost", 1000, 0, 0, 6, 60}, {"AllowAtMost", 0, 0, 0, 6, 60},
		},
		"A negative cost gives back": {{"AllowN", 10, 10, 0, -1, 60}, {"AllowN", -3, -3, 3, -1, 42}, {"AllowN", 3, 3, 0, -1, 60}},
	} {
		for _, engine := range redistest.Engines {
			t.Run(name+"/"+engine, func(t *testing.T) {
				play(t, redis_rate.NewLimiter(client(t, redistest.Start(t, engine))), limit, steps)
			})
		}
	}
}

func TestLimit(t *testing.T) {
	for limit, want := range map[redis_rate.Limit]string{
		redis_rate.PerSecond(10): "10 req/s (burst 10)", redis_rate.PerMinute(1): "1 req/m (burst 1)", redis_rate.PerHour(7): "7 req/h (burst 7)",
		{Rate: 3, Burst: 5, Period: 90 * time.Second}: "3 req/1m30s (burst 5)",
	} {
		if got := limit.String(); got != want || limit.IsZero() {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !(redis_rate.Limit{}).IsZero() {
		t.Error("the zero Limit is not zero")
	}
	l := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}))
	if _, err := l.Allow(context.Background(), "key", redis_rate.Limit{Burst: 5, Period: time.Second}); err == nil || !strings.Contains(err.Error(), "above 0") {
		t.Errorf("a limit without a rate: %v", err)
	}
}

// Concurrent calls of several clients get the burst and what is refilled, and no more.
func TestConcurrently(t *testing.T) {
	server := redistest.Start(t, "redis-server")
	limit := redis_rate.Limit{Rate: 1, Burst: 100, Period: time.Hour}
	var allowed atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		l := redis_rate.NewLimiter(client(t, server))
		for range 8 {
			group.Go(func() {
				for range 20 {
					res, err := l.Allow(context.Background(), "key", limit)
					if err != nil {
						t.Error(err)
						return
					}
					allowed.Add(int64(res.Allowed))
				}
			})
		}
	}
	if group.Wait(); allowed.Load() != 100 {
		t.Errorf("%d allowed, want 100", allowed.Load())
	}
}

// The state survives a script cache that is flushed, expires when the key has recovered,
// and is of no use to other keys.
func TestState(t *testing.T) {
	server := redistest.Start(t, "redis-server")
	rdb, ctx := client(t, server), context.Background()
	l := redis_rate.NewLimiter(rdb)
	play(t, l, redis_rate.PerHour(10), []step{{"AllowN", 4, 4, 6, -1, 24}})
	testrig.Must(t, rdb.ScriptFlush(ctx).Err())
	play(t, l, redis_rate.PerHour(10), []step{{"AllowN", 4, 4, 2, -1, 48}})
	if ttl := rdb.PTTL(ctx, "weir:redis_rate:key").Val(); ttl <= 47*time.Minute || ttl > 48*time.Minute+time.Second {
		t.Errorf("the key expires in %v, want 48 minutes", ttl)
	}
	if n := rdb.DBSize(ctx).Val(); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
}

// What is wrong with the server is an error, and a denial is none.
func TestErrors(t *testing.T) {
	ctx := context.Background()
	locked := redistest.Start(t, "redis-server", "--requirepass", "secret")
	full := redistest.Start(t, "redis-server", "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	wrong := redis.NewClient(&redis.Options{Addr: locked.Addr, Password: "guess", MaxRetries: -1})
	defer wrong.Close()
	for want, l := range map[string]*redis_rate.Limiter{
		"WRONGPASS": redis_rate.NewLimiter(wrong), "OOM": redis_rate.NewLimiter(client(t, full)),
	} {
		if _, err := l.Allow(ctx, "key", redis_rate.PerSecond(1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := redis_rate.NewLimiter(client(t, redistest.Start(t, "redis-server"))).Allow(ended, "key", redis_rate.PerSecond(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that of the context", err)
	}
}

// The permissions that docs/redis.md names suffice.
func TestPermissions(t *testing.T) {
	server, ctx := redistest.Start(t, "redis-server"), context.Background()
	testrig.Must(t, client(t, server).Do(ctx, "ACL", "SETUSER", "app", "on", ">secret", "~weir:*", "+eval", "+evalsha", "+time", "+get", "+psetex", "+del").Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "app", Password: "secret"})
	defer rdb.Close()
	play(t, redis_rate.NewLimiter(rdb), redis_rate.PerHour(10), []step{{"AllowN", 4, 4, 6, -1, 24}, {"AllowN", -4, -4, 10, -1, 0}, {call: "Reset"}})
}

func ExampleNewLimiter() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	limiter := redis_rate.NewLimiter(rdb)
	res, err := limiter.Allow(context.Background(), "project:123", redis_rate.PerSecond(10))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("allowed", res.Allowed, "remaining", res.Remaining)
}

// client returns a client of a server, which is closed when the test ends.
func client(t *testing.T, s *redistest.Server) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
