package server_test

import (
	"fmt"
	"math/rand/v2"
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
