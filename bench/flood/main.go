// Flood sends keys that come once each through a keyed.Limiter, and tells what
// it costs: the heap, the time of each call, and what honest keys notice.
//
//	go run ./flood [-keys n] [-memory bytes] [-rate r] [-burst b]
package main

import (
	"flag"
	"fmt"
	"log"
	"math/bits"
	"runtime"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

func main() {
	keys := flag.Int("keys", 100_000_000, "fresh keys, at least 1000")
	memory := flag.Int("memory", 64<<20, "bytes for buckets")
	rate := flag.Float64("rate", 1, "events a second for each key")
	burst := flag.Int("burst", 5, "events at once for each key")
	flag.Parse()
	lim, err := keyed.New[uint64](gcra.PerSecond(*rate, *burst), keyed.Config{Memory: *memory})
	if err != nil {
		log.Fatal(err)
	}
	if *keys < 1000 || *rate <= 0 {
		log.Fatal("flood: want at least 1000 keys and a rate above 0")
	}
	fmt.Printf("%d fresh keys, %d MiB, %v/s and %d at once for each\n", *keys, *memory>>20, *rate, *burst)
	f := flood{lim: lim, interval: time.Duration(2e9 / *rate / honest)}
	took := f.run(*keys)
	fmt.Printf("%.0f s, %.1f million keys a second; %d forgotten in debt\n",
		took.Seconds(), float64(*keys)/took.Seconds()/1e6, lim.Stats().Forgotten)
	fmt.Printf("heap: at most %.1f MiB\n", float64(f.heap)/(1<<20))
	fmt.Printf("%d honest keys, each at half its rate: %d of %d calls denied\n", honest, f.denied, f.asked)
	fmt.Println("how many calls took how long, and how many readings of the clock alone in the same time:")
	var alone histogram
	for began := time.Now(); alone.time(func() {}).Sub(began) < took; {
	}
	for i := range f.latency {
		if f.latency[i] > 0 || alone[i] > 0 {
			fmt.Printf("%12s  %10d  %10d\n", "< "+time.Duration(1<<i).String(), f.latency[i], alone[i])
		}
	}
}

const honest = 1000

// A histogram counts what took less than 2^i ns, and not less than half of
// that.
type histogram [64]int

// time counts a call, and returns the time at its end.
func (h *histogram) time(call func()) (after time.Time) {
	before := time.Now()
	call()
	after = time.Now()
	h[bits.Len64(uint64(after.Sub(before)))]++
	return after
}

type flood struct {
	lim      *keyed.Limiter[uint64]
	interval time.Duration // between two calls for honest keys

	heap          uint64 // the most there was
	latency       histogram
	asked, denied int // calls for honest keys
}

// run calls for fresh keys as fast as it can, and for honest ones in between.
func (f *flood) run(keys int) time.Duration {
	began := time.Now()
	for i := range keys {
		after := f.latency.time(func() { f.lim.Allow(honest + uint64(i)) })
		if after.Sub(began) > time.Duration(f.asked)*f.interval {
			if !f.lim.Allow(uint64(f.asked % honest)) {
				f.denied++
			}
			f.asked++
		}
		if i%(keys/100) == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			f.heap = max(f.heap, m.HeapAlloc)
			fmt.Printf("\r%3d %%", i/(keys/100))
		}
	}
	fmt.Print("\r     \r")
	return time.Since(began)
}
