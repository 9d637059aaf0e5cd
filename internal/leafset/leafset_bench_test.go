package leafset_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafsession"
	"github.com/weir-go/weir/internal/leafset"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

// generous assigns each key a thousand tokens a second.
type generous struct{}

func (generous) Exchange(_ context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	a := leaf.Answer{TTLMS: 30_000, NextMS: 1000}
	for _, r := range x.Reports {
		if !r.Done {
			a.Assignments = append(a.Assignments, leaf.Assignment{Key: r.Key, Rate: 1000, Burst: 100, LimitRate: 1e6, LimitBurst: 1e5, Leaves: 10})
		}
	}
	return a, nil
}

// A histogram has the number of durations of each power of two divided by four.
type histogram [64 * 4]uint64

func (h *histogram) add(d time.Duration) {
	x := uint64(max(d, 4))
	up := bits.Len64(x) - 3
	h[up*4+int(x>>up)&3]++
}

// at returns the duration below which a part of all is.
func (h *histogram) at(part float64) time.Duration {
	total := uint64(0)
	for _, n := range h {
		total += n
	}
	sum := uint64(0)
	for i, n := range h {
		if sum += n; float64(sum) >= part*float64(total) {
			return time.Duration((4+uint64(i&3)+1)<<(i/4)) - 1
		}
	}
	return 0
}

// BenchmarkTake measures decisions about keys with a Zipf distribution. The quantiles are of single
// decisions, and include two readings of the clock by the benchmark.
func BenchmarkTake(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkTake(b, n) })
	}
}

func benchmarkTake(b *testing.B, n int) {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	policy := &leaf.Policy{}
	for _, c := range []struct {
		name string
		make func(b *testing.B) func(key string) bool
	}{
		{"leafset", func(b *testing.B) func(string) bool {
			s, err := leafset.New(leafset.Config{Config: leaf.Config{Name: "a", MaxKeys: 2 * n}, Upstream: generous{}})
			testrig.Must(b, err)
			b.Cleanup(func() { _ = s.Close(context.Background()) })
			for _, k := range keys {
				s.Take(k, 1, policy)
			}
			for s.Stats().Assigned < n {
				time.Sleep(10 * time.Millisecond)
			}
			return func(k string) bool { d, _ := s.Take(k, 1, policy); return d.OK }
		}},
		{"keyed", func(b *testing.B) func(string) bool {
			l, err := keyed.New[string](gcra.PerSecond(1000, 100), keyed.Config{})
			testrig.Must(b, err)
			return func(k string) bool { return l.Take(k, 1).OK }
		}},
		{"map of rate.Limiter", func(*testing.B) func(string) bool {
			var mu sync.Mutex
			all := map[string]*rate.Limiter{}
			return func(k string) bool {
				mu.Lock()
				l := all[k]
				if l == nil {
					l = rate.NewLimiter(1000, 100)
					all[k] = l
				}
				mu.Unlock()
				return l.Allow()
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			take := c.make(b)
			b.ReportAllocs()
			b.ResetTimer()
			var mu sync.Mutex
			var all histogram
			b.RunParallel(func(pb *testing.PB) {
				rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
				zipf := rand.NewZipf(rnd, 1.1, 10, uint64(n-1))
				draws := make([]int, 1<<14)
				for i := range draws {
					draws[i] = int(zipf.Uint64())
				}
				var own histogram
				for i := 0; pb.Next(); i++ {
					key := keys[draws[i&(1<<14-1)]]
					start := time.Now()
					take(key)
					own.add(time.Since(start))
				}
				mu.Lock()
				defer mu.Unlock()
				for i := range own {
					all[i] += own[i]
				}
			})
			b.ReportMetric(float64(all.at(.5)), "p50-ns")
			b.ReportMetric(float64(all.at(.99)), "p99-ns")
			b.ReportMetric(float64(all.at(.999)), "p99.9-ns")
		})
	}
}

// BenchmarkExchange measures the work of a leaf for one exchange about 100,000 active keys,
// of which few have something to report.
func BenchmarkExchange(b *testing.B) {
	const n = 100_000
	policy, set, now := &leaf.Policy{}, leafsession.NewSet(leaf.Config{Name: "a", MaxKeys: n}), time.Duration(0)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	exchange := func() int {
		x := set.Exchange(now)
		a, _ := generous{}.Exchange(context.Background(), x)
		set.Answered(now, &a)
		return len(x.Reports)
	}
	reports := 0
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		now += time.Second
		for _, k := range keys {
			set.Take(now, k, 1, policy)
		}
		for i == 0 && set.Held(now) < n {
			exchange()
		}
		b.StartTimer()
		reports += exchange()
	}
	b.ReportMetric(float64(reports)/float64(b.N), "reports/op")
}
