package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weir-go/weir/internal/heap"
)

// A trace is a named, seeded sequence of keys and the cache sizes that it is
// played at.
type trace struct {
	name, about string
	sizes       []int
	keys        func(n int, rng *rand.Rand) []uint64
}

// traces are the shapes of the literature. Lengths do not depend on the size
// of a cache, so that a row compares sizes on the same requests.
var traces = []trace{
	{"zipf-0.9", "Zipf, s = 0.9, a million keys", []int{1_000, 10_000, 100_000}, zipfTrace(0.9, 1_000_000)},
	{"zipf-1.0", "Zipf, s = 1, a million keys", []int{1_000, 10_000, 100_000}, zipfTrace(1, 1_000_000)},
	{"scan", "Zipf, s = 1, 100,000 keys; after every 300,000 requests, 100,000 keys never asked again", []int{500, 5_000, 20_000, 50_000},
		scanTrace(1, 100_000, 300_000, 100_000)},
	{"loop", "a cycle over 20,000 keys", []int{5_000, 10_000, 16_000, 18_800}, loopTrace(20_000)},
	{"shift", "Zipf, s = 1, 100,000 keys, permuted after every 500,000 requests", []int{500, 5_000, 20_000}, shiftTrace(1, 100_000, 500_000)},
	{"latest", "a new key in 20 requests, else Zipf, s = 0.99, by age (YCSB's workload D)", []int{500, 5_000, 20_000}, latestTrace(0.99, 100_000, 0.05)},
	{"slide", "uniform over 10,000 keys; in each 10 requests, one leaves and one joins", []int{1_000, 5_000, 10_000}, slideTrace(10_000, 10)},
	{"burst", "a key lives for 1 + 3 requests on average, 4,000 requests apart (exponential)", []int{1_000, 2_000, 4_000, 8_000}, burstTrace(3, 4_000)},
	{"stack", "a new key in 10 requests, else by LRU stack distance, log-uniform up to 100,000", []int{500, 5_000, 20_000}, stackTrace(0.1, 100_000)},
	{"batch", "400 keys in turn, three times, and then never", []int{500, 1_000, 2_000}, batchTrace(400, 3)},
	{"mix", "400,000 requests each of a loop over 10,000, Zipf, burst and scan, in turn", []int{500, 2_000, 5_000, 8_000}, mixTrace(400_000)},
}

// zipf draws ranks 0, 1, ..., n-1 with probability ∝ 1/(rank+1)^s, for any s >= 0. It has
// the sums of the weights of the ranks up to each.
type zipf []float64

func newZipf(s float64, n int) zipf {
	z, sum := make(zipf, n), 0.0
	for i := range z {
		sum += math.Pow(float64(i+1), -s)
		z[i] = sum
	}
	return z
}

func (z zipf) draw(rng *rand.Rand) int {
	rank, _ := slices.BinarySearch(z, rng.Float64()*z[len(z)-1])
	return rank
}

func fill(n int, next func() uint64) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = next()
	}
	return keys
}

func zipfTrace(s float64, among int) func(int, *rand.Rand) []uint64 {
	return func(n int, rng *rand.Rand) []uint64 {
		z := newZipf(s, among)
		return fill(n, func() uint64 { return uint64(z.draw(rng)) })
	}
}

func scanTrace(s float64, among, every, length int) func(int, *rand.Rand) []uint64 {
	return func(n int, rng *rand.Rand) []uint64 {
		z, fresh, i := newZipf(s, among), uint64(among), 0
		return fill(n, func() uint64 {
			i++
			if (i-1)%(every+length) < every {
				return uint64(z.draw(rng))
			}
			fresh++
			return fresh
		})
	}
}

func loopTrace(length int) func(int, *rand.Rand) []uint64 {
	return func(n int, _ *rand.Rand) []uint64 {
		i := 0
		return fill(n, func() uint64 { i++; return uint64(i % length) })
	}
}

func shiftTrace(s float64, among, every int) func(int, *rand.Rand) []uint64 {
	return func(n int, rng *rand.Rand) []uint64 {
		z, i := newZipf(s, among), 0
		var of []int
		return fill(n, func() uint64 {
			if i%every == 0 {
				of = rng.Perm(among)
			}
			i++
			return uint64(of[z.draw(rng)])
		})
	}
}

func latestTrace(s float64, among int, fresh float64) func(int, *rand.Rand) []uint64 {
	return func(n int, rng *rand.Rand) []uint64 {
		z, newest := newZipf(s, among), uint64(among)
		return fill(n, func() uint64 {
			if rng.Float64() < fresh {
				newest++
				return newest
			}
			return newest - uint64(z.draw(rng))
		})
	}
}

func slideTrace(among, every int) func(int, *rand.Rand) []uint64 {
	return func(n int, rng *rand.Rand) []uint64 {
		i := 0
		return fill(n, func() uint64 { i++; return uint64(i/every + rng.IntN(among)) })
	}
}

// due is a key and how often it is still to be asked, next at time at.
type due struct {
	at   float64
	key  uint64
	left int
}

// burstTrace has keys that are asked 1 + again times on average, geometrically
// distributed, gap requests apart on average, and then never again.
func burstTrace(again, gap float64) func(int, *rand.Rand) []uint64 {
	return func(n int, rng *rand.Rand) []uint64 {
		a := heap.New(func(a, b due) bool { return a.at < b.at })
		key, now, arrival := uint64(0), 0.0, 0.0
		return fill(n, func() uint64 {
			if a.Len() == 0 || arrival <= a.Min().at {
				now = arrival
				key++
				arrival += rng.ExpFloat64() * (1 + again) // a new key per 1+again requests
				left := int(rng.ExpFloat64() / math.Log1p(1/again))
				if left > 0 {
					a.Push(due{now + rng.ExpFloat64()*gap, key, left})
				}
				return key
			}
			d := a.Min()
			if d.left > 1 {
				a.Items()[0] = due{d.at + rng.ExpFloat64()*gap, d.key, d.left - 1}
				a.Fix(0)
			} else {
				a.Pop()
			}
			return d.key
		})
	}
}

// stackTrace asks for a new key with probability fresh, else for the one that
// as many other keys were asked for since as a log-uniform draw says.
func stackTrace(fresh float64, deepest int) func(int, *rand.Rand) []uint64 {
	return func(n int, rng *rand.Rand) []uint64 {
		var stack []uint64 // the key that was asked for last is at the end
		return fill(n, func() uint64 {
			depth := int(math.Pow(float64(deepest), rng.Float64())) // 1 is the end
			key := uint64(len(stack) + 1)
			if rng.Float64() >= fresh && depth <= len(stack) {
				i := len(stack) - depth
				key = stack[i]
				stack = slices.Delete(stack, i, i+1)
			}
			stack = append(stack, key)
			return key
		})
	}
}

// batchTrace has keys in batches, each a short loop.
func batchTrace(length, times int) func(int, *rand.Rand) []uint64 {
	return func(n int, _ *rand.Rand) []uint64 {
		i := -1
		return fill(n, func() uint64 { i++; return uint64(i/(length*times)*length + i%length) })
	}
}

// mixTrace returns a trace of phases that alternate and repeat. All Zipf phases use the
// same keys; all loops use the same keys.
func mixTrace(phase int) func(int, *rand.Rand) []uint64 {
	return func(n int, rng *rand.Rand) []uint64 {
		const popular = 100_000
		phases := []func(int, *rand.Rand) []uint64{
			loopTrace(10_000), zipfTrace(1, popular), burstTrace(3, 4_000), scanTrace(1, popular, 50_000, 50_000),
		}
		var keys []uint64
		for i := 0; len(keys) < n; i++ {
			kind := i % len(phases)
			for _, k := range phases[kind](min(phase, n-len(keys)), rng) {
				switch {
				case kind == 0: // the loop
					k |= 1 << 62
				case kind == 2 || k > popular: // never again in a later phase
					k |= uint64(i+1) << 32
				}
				keys = append(keys, k)
			}
		}
		return keys
	}
}
