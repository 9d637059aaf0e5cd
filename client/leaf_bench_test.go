package client_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/leaf"
)

// BenchmarkLeafTake measures decisions of a Client that is a leaf, about 1,000 keys in turn. The
// quantiles are of single decisions, and include two readings of the clock by the benchmark.
func BenchmarkLeafTake(b *testing.B) {
	f := newFake()
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
		f.rates[keys[i]] = leaf.Assignment{Rate: 1000, Burst: 100, LimitRate: 1e6, LimitBurst: 1e5, Leaves: 10}
	}
	c := f.client(client.Config{Leaf: &client.LeafConfig{First: client.FirstDeny}})
	defer c.Close()
	for c.Stats().Leaf.Assigned < len(keys) {
		for _, key := range keys {
			_, _ = c.Take(b.Context(), key, 1)
		}
		time.Sleep(10 * time.Millisecond)
	}
	ctx, took := b.Context(), make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		_, _ = c.Take(ctx, keys[i%len(keys)], 1)
		if d := time.Since(start); len(took) < cap(took) {
			took = append(took, d)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
	b.ReportMetric(float64(took[len(took)*999/1000]), "p99.9-ns")
}
