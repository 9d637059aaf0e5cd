package keyedtable_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/internal/window"
	"github.com/weir-go/weir/keyed"
)

// contenders count the events of every key, up to a limit.
var contenders = []struct {
	name string
	make func(limit int, period time.Duration) func(key string) bool
}{
	{"fixed", func(limit int, period time.Duration) func(string) bool {
		l, _ := keyedtable.NewWindows[string](keyedtable.Window{Limit: limit, Period: period}, keyedtable.Config{})
		return func(key string) bool { return l.Take(key, 1, 0).OK }
	}},
	{"sliding", func(limit int, period time.Duration) func(string) bool {
		l, _ := keyedtable.NewWindows[string](keyedtable.Window{Limit: limit, Period: period, Sliding: true}, keyedtable.Config{})
		return func(key string) bool { return l.Take(key, 1, 0).OK }
	}},
	{"keyed", func(limit int, period time.Duration) func(string) bool {
		l, _ := keyed.New[string](gcra.Per(1, min(period, math.MaxInt64/time.Duration(limit)), limit), keyed.Config{}) // no token comes back soon
		return func(key string) bool { return l.Take(key, 1).OK }
	}},
	{"mutexmap", func(limit int, period time.Duration) func(string) bool {
		epoch := time.Now()
		var mu sync.Mutex
		counts := map[string]window.Count{}
		return func(key string) bool {
			mu.Lock()
			defer mu.Unlock()
			now := time.Since(epoch)
			q := window.Quota{Limit: limit, Calendar: window.Every(period, now)}
			c, d := q.Take(counts[key], now, 1)
			if d.OK {
				counts[key] = c
			}
			return d.OK
		}
	}},
}

const manyKeys = 1_000_000

// shuffled returns manyKeys keys of 20 bytes in random order, behind one another
// in memory: a loop over them reads keys as cheaply as from a network
// buffer, and meets the limiter's own memory at random places.
var shuffled = sync.OnceValue(func() []string {
	all := new(strings.Builder)
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(manyKeys) {
		fmt.Fprintf(all, "user-%015d", i)
	}
	keys := make([]string, manyKeys)
	for i := range keys {
		keys[i] = all.String()[20*i : 20*i+20]
	}
	return keys
})

// BenchmarkTake asks for a million keys at random, for a thousand, and for a
// thousand that have nothing left.
func BenchmarkTake(b *testing.B) {
	for _, bb := range []struct {
		name  string
		keys  int
		limit int
		ok    bool
	}{{"million", manyKeys, 1e9, true}, {"thousand", 1000, 1e9, true}, {"denied", 1000, 1, false}} {
		for _, c := range contenders {
			b.Run(bb.name+"/"+c.name, func(b *testing.B) {
				keys := shuffled()[:bb.keys]
				take := c.make(bb.limit, 1000*time.Hour)
				for _, key := range keys {
					take(strings.Clone(key))
				}
				runtime.GC()
				var goroutines atomic.Uint64
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					i := int(goroutines.Add(1)*7919) * len(keys) / 16 % len(keys) // far from the others
					for pb.Next() {
						if take(keys[i]) != bb.ok {
							b.Error("wrong")
							return
						}
						if i++; i == len(keys) {
							i = 0
						}
					}
				})
			})
		}
	}
}

// BenchmarkMemory reports the heap that a live key takes where there are a
// million.
func BenchmarkMemory(b *testing.B) {
	keys := shuffled()
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) {
			var grown int64
			for range b.N {
				before := heap()
				take := c.make(10, time.Hour)
				for _, key := range keys {
					take(strings.Clone(key))
				}
				grown += heap() - before
				runtime.KeepAlive(take)
			}
			b.ReportMetric(float64(grown)/float64(b.N)/manyKeys, "B/key")
			b.ReportMetric(0, "ns/op") // says nothing here
		})
	}
}
