package server_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// BenchmarkDecide decides without a protocol: for a thousand hot keys, for a million,
// and for denied keys. It includes writing the text of a key, as each request has a
// new one.
//
// Beside it is the least that could be called a decision: the theoretical arrival
// time of each key in one of 64 maps under locks, in memory that is not bounded,
// without rules, reasons or counts.
func BenchmarkDecide(b *testing.B) {
	for _, bb := range []struct {
		name  string
		keys  uint64
		rules config.Rules
	}{
		{"hot", 1000, rules("*", 1_000_000_000, config.GCRA)},
		{"million", 1_000_000, rules("*", 1_000_000_000, config.GCRA)},
		{"denied", 1000, rules("*", 1, config.GCRA)},
		{"fixed-hot", 1000, rules("*", 1_000_000_000, config.Fixed)},
		{"fixed-million", 1_000_000, rules("*", 1_000_000_000, config.Fixed)},
		{"per-rule", 1000, perRule()},
		{"rules-hot", 1000, manyRules(10_000)},
		{"rules-million", 1_000_000, manyRules(10_000)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s, err := server.New(server.Config{Rules: &bb.rules})
			if err != nil {
				b.Fatal(err)
			}
			askAbout(b, bb.keys, func() func(string) {
				req, v := decider.Request{N: 1}, new(decider.Verdict)
				return func(key string) {
					req.Key = key
					_ = s.Decide(context.Background(), &req, v)
				}
			})
		})
	}
	for name, n := range map[string]uint64{"maps-hot": 1000, "maps-million": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			var m maps64
			m.init()
			askAbout(b, n, func() func(string) { return m.take })
		})
	}
}

// perRule is one bucket for all keys.
func perRule() config.Rules {
	r := rules("*", 1_000_000_000, config.GCRA)
	r.Rules[0].Per = config.PerRule
	return r
}

// askAbout asks for n keys at random, once each first.
func askAbout(b *testing.B, n uint64, asker func() func(key string)) {
	ask, key := asker(), make([]byte, 0, 16)
	for i := range n {
		ask(name(key, i))
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		ask, key := asker(), make([]byte, 0, 16)
		rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
		for pb.Next() {
			ask(name(key, rng.Uint64N(n)))
		}
	})
}

const nameLen = len("user:1000000")

// name writes the name of the i-th key, which is good until the next one.
func name(into []byte, i uint64) string {
	b := strconv.AppendUint(append(into, "user:"...), 1_000_000+i, 10)
	return unsafe.String(&b[0], len(b))
}

// maps64 are maps of when each key was last allowed.
type maps64 struct {
	seed  maphash.Seed
	epoch time.Time
	parts [64]struct {
		mu sync.Mutex
		at map[[nameLen]byte]time.Duration
		_  [48]byte
	}
}

func (m *maps64) init() {
	m.seed, m.epoch = maphash.MakeSeed(), time.Now()
	for i := range m.parts {
		m.parts[i].at = map[[nameLen]byte]time.Duration{}
	}
}

func (m *maps64) take(key string) {
	p := &m.parts[maphash.String(m.seed, key)%uint64(len(m.parts))]
	k := [nameLen]byte([]byte(key))
	now := time.Since(m.epoch)
	p.mu.Lock()
	if at := max(p.at[k], now); at-now < time.Second {
		p.at[k] = at + time.Nanosecond
	}
	p.mu.Unlock()
}

// BenchmarkWait lets a thousand requests wait for tokens that come every half
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
				var v decider.Verdict
				err := s.Wait(b.Context(), &decider.Request{Key: "a", N: 1}, &v)
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
