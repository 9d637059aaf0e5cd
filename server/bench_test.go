package server_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/config"
	"github.com/weir-go/weir/server"
)

// BenchmarkDecide is a decision without any protocol: on a thousand hot keys, on
// a million, and on those that are denied.
func BenchmarkDecide(b *testing.B) {
	for _, bb := range []struct {
		name  string
		keys  int
		rules config.Rules
	}{
		{"hot", 1000, rules("*", 1_000_000_000, config.GCRA)},
		{"million", 1_000_000, rules("*", 1_000_000_000, config.GCRA)},
		{"denied", 1000, rules("*", 1, config.GCRA)},
		{"fixed-hot", 1000, rules("*", 1_000_000_000, config.Fixed)},
		{"fixed-million", 1_000_000, rules("*", 1_000_000_000, config.Fixed)},
		{"rules-hot", 1000, manyRules(10_000)},
		{"rules-million", 1_000_000, manyRules(10_000)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s, err := server.New(server.Config{Rules: &bb.rules})
			if err != nil {
				b.Fatal(err)
			}
			keys := make([]string, bb.keys)
			for i := range keys {
				keys[i] = fmt.Sprintf("user:%07d", i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
				var v server.Verdict
				var req server.Request
				for pb.Next() {
					req.Key, req.N = keys[rng.IntN(len(keys))], 1
					s.Decide(&req, &v)
				}
			})
		})
	}
}

// BenchmarkWait lets a thousand stand in line for tokens that come every half
// millisecond, and reports how late their turns are: at the median, and in the
// worst hundredth.
func BenchmarkWait(b *testing.B) {
	const waiters, every = 1000, 500 * time.Microsecond
	r := rules("*", int(time.Second/every), config.GCRA)
	r.Rules[0].Burst, r.Rules[0].Queue = 1, ptr(waiters)
	s, err := server.New(server.Config{Rules: &r})
	if err != nil {
		b.Fatal(err)
	}
	var late []time.Duration
	for b.Loop() {
		var mu sync.Mutex
		var at []time.Time
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() {
				var v server.Verdict
				err := s.Wait(b.Context(), &server.Request{Key: "a", N: 1}, &v)
				mu.Lock()
				defer mu.Unlock()
				if at = append(at, time.Now()); err != nil || !v.OK {
					b.Errorf("%+v, %v", v, err)
				}
			})
		}
		all.Wait()
		slices.SortFunc(at, time.Time.Compare)
		for i, t := range at {
			late = append(late, t.Sub(at[0].Add(time.Duration(i)*every)))
		}
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "late-p50-µs")
	b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "late-p99-µs")
}

func rules(glob string, perSecond int, a config.Algorithm) config.Rules {
	return config.Rules{Rules: []config.Rule{{
		Name: "all", Glob: glob,
		Quota: config.Quota{Rate: config.Rate{Count: perSecond, Period: time.Second}, Algorithm: a},
	}}}
}

// manyRules are exact keys and globs, before one that matches.
func manyRules(n int) config.Rules {
	r := rules("user:*", 1_000_000_000, config.GCRA)
	for i := range n - 1 {
		c := r.Rules[0]
		c.Name, c.Glob = fmt.Sprint(i), fmt.Sprintf("tenant%d:*", i)
		if i%2 == 0 {
			c.Key, c.Glob = c.Glob, ""
		}
		r.Rules = append(r.Rules, c)
	}
	r.Rules[0], r.Rules[n-1] = r.Rules[n-1], r.Rules[0]
	return r
}
