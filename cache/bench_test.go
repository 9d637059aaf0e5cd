package cache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

func benchmarkHit(b *testing.B, keys int, cfg Config[string, int]) {
	cfg.Entries = 2 * keys
	c, err := New(cfg)
	testrig.Must(b, err)
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user:%012d", i)
		c.Set(names[i], i)
	}
	fill := func(context.Context, string) (int, error) { return 0, nil }
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for i := rand.IntN(keys); pb.Next(); i++ {
			if i >= keys {
				i = 0
			}
			c.Get(ctx, names[i], fill)
		}
	})
}

func BenchmarkHit(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) { benchmarkHit(b, keys, Config[string, int]{}) })
		b.Run(fmt.Sprint(keys, "/ttl"), func(b *testing.B) { benchmarkHit(b, keys, Config[string, int]{TTL: time.Hour}) })
	}
}

// The longest that one of a million new entries takes: the table doubles meanwhile.
func BenchmarkWorstPause(b *testing.B) {
	const n = 1_000_000
	names := make([]string, n)
	for i, j := range rand.Perm(n) {
		names[i] = fmt.Sprintf("user:%012d", j)
	}
	var worst time.Duration
	for b.Loop() {
		c, err := New(Config[string, *string]{Entries: n})
		testrig.Must(b, err)
		for _, name := range names {
			began := time.Now()
			c.Set(name, &name)
			worst = max(worst, time.Since(began))
		}
	}
	b.ReportMetric(float64(worst.Microseconds())/1000, "ms-worst")
}
