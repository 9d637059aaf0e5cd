//go:build system

// Package redisrate compares redislimit/redis_rate with go-redis/redis_rate, on a real
// server.
package redisrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	original "github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit/redis_rate"
)

func client(t testing.TB, s *redistest.Server) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: 64})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Both packages give the same results to the same calls, if the time of an event is whole
// seconds: otherwise the original's rounding can cost an event. It is minutes, so that the
// time between two calls does not matter.
func TestSameResults(t *testing.T) {
	rdb, ctx := client(t, redistest.Start(t, "redis-server")), context.Background()
	ours, theirs := redis_rate.NewLimiter(rdb), original.NewLimiter(rdb)
	for key := range 20 {
		seed := rand.Uint64()
		chance := rand.New(rand.NewPCG(seed, 1))
		limit := redis_rate.Limit{Rate: []int{1, 2, 3, 5, 8, 12, 20}[chance.IntN(7)], Burst: 1 + chance.IntN(30), Period: time.Hour}
		for step := range 40 {
			n := chance.IntN(limit.Burst + 3)
			ask, askOriginal := ours.AllowN, theirs.AllowN
			if chance.IntN(2) == 0 && n > 0 { // the original takes fractions, so it would deny the last event
				ask, askOriginal = ours.AllowAtMost, theirs.AllowAtMost
				n = min(n, chance.IntN(3)+1)
			}
			got, err := ask(ctx, fmt.Sprint(key), limit, n)
			testrig.Must(t, err)
			want, err := askOriginal(ctx, fmt.Sprint(key), original.Limit(limit), n)
			testrig.Must(t, err)
			if got.Allowed != want.Allowed || got.Remaining != want.Remaining || !near(got.RetryAfter, want.RetryAfter) || !near(got.ResetAfter, want.ResetAfter) {
				t.Fatalf("seed %d, step %d, %d of %v: %+v, want %+v", seed, step, n, limit, got, want)
			}
		}
	}
}

func near(a, b time.Duration) bool { return max(a-b, b-a) < time.Minute }

// The server's CPU time for a decision, in the same run. Keys are many, so that most
// decisions allow, or one, which is exhausted.
func BenchmarkRedisRate(b *testing.B) {
	server := redistest.Start(b, "redis-server")
	rdb, ctx := client(b, server), context.Background()
	ours, theirs := redis_rate.NewLimiter(rdb), original.NewLimiter(rdb)
	for _, tt := range []struct {
		name string
		keys uint32
		rate int
	}{{"allow", 100_000, 1000}, {"deny", 1, 1}} {
		limit := redis_rate.PerHour(tt.rate)
		for name, allow := range map[string]func(key string) error{
			"weir": func(key string) error { _, err := ours.Allow(ctx, key, limit); return err },
			"redis_rate": func(key string) error {
				_, err := theirs.Allow(ctx, key, original.Limit(limit))
				return err
			},
		} {
			b.Run(tt.name+"/"+name, func(b *testing.B) {
				rdb.FlushAll(ctx)
				var next atomic.Uint32
				b.SetParallelism(16)
				before := cpu(b, rdb)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := allow(strconv.Itoa(int(next.Add(1) * 2654435761 % tt.keys))); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric((cpu(b, rdb)-before)/float64(b.N)*1e6, "server-µs/op")
			})
		}
	}
}

// cpu returns the seconds of CPU that the server has used.
func cpu(b *testing.B, rdb *redis.Client) (seconds float64) {
	info, err := rdb.Info(context.Background(), "cpu").Result()
	testrig.Must(b, err)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			s, err := strconv.ParseFloat(value, 64)
			testrig.Must(b, err)
			seconds += s
		}
	}
	return seconds
}
