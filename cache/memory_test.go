//go:build !race

package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-go/weir/cache"
)

// What a cache holds is within its Bytes, whatever its keys and values are, and
// however many come: 10 times as many as fit, and 100 times.
func TestMemoryIsBounded(t *testing.T) {
	bounded(t, func(i int) (int, int) { return i, i }, nil)
	bounded(t, func(i int) (string, *[3]int) { return fmt.Sprint("key:", i), new([3]int) },
		func(k string, _ *[3]int) int64 { return 16 + 24 })
	bounded(t, func(i int) (int, [100]byte) { return i, [100]byte{} }, nil)
	bounded(t, func(i int) (int, [912]byte) { return i, [912]byte{} }, nil) // an entry of 1024, and a word
	bounded(t, func(i int) (int, [1000]byte) { return i, [1000]byte{} }, nil)
	bounded(t, func(i int) (int, [1100]byte) { return i, [1100]byte{} }, nil)
	bounded(t, func(i int) (int, [5000]byte) { return i, [5000]byte{} }, nil)
	bounded(t, func(i int) ([32]byte, any) { return [32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, nil }, nil)
	bounded(t, func(i int) (int, [30]*int) { return i, [30]*int{} }, nil)
	// Of many sizes, from nothing to 20 kB; what they take is their capacity.
	bounded(t, func(i int) (int, []byte) {
		return i, append([]byte(nil), make([]byte, 1<<rand.IntN(14)+rand.IntN(4000))...)
	}, func(_ int, v []byte) int64 { return int64(cap(v)) })
}

func bounded[K comparable, V any](t *testing.T, of func(i int) (K, V), cost func(K, V) int64) {
	t.Helper()
	const bytes = 2 << 20
	if cost == nil {
		cost = func(K, V) int64 { return 0 }
	}
	var k K
	var v V
	what := strings.TrimPrefix(fmt.Sprintf("%T→%T", k, v), "*")
	before := heap()
	c := newCache(t, cache.Config[K, V]{Bytes: bytes, Cost: cost})
	n, fit := 0, 0
	fill := func(times int) {
		for ; fit == 0 || n < times*fit; n++ {
			k, v := of(n)
			if n%2 == 0 {
				c.Set(k, v)
			} else {
				c.Get(context.Background(), k, func(context.Context, K) (V, error) { return v, nil })
			}
			if s := c.Stats(); fit == 0 && s.Evicted > 0 {
				fit = s.Entries
			}
		}
		s := c.Stats()
		held := heap() - before
		if held > bytes+20_000 {
			t.Errorf("%s: %d times as many: %d entries, of %d bytes, take %d, %.3f of the bound",
				what, times, s.Entries, s.Bytes, held, float64(held)/bytes)
		}
		t.Logf("%s: %d entries: %.3f", what, s.Entries, float64(held)/bytes)
	}
	fill(10)
	if s := c.Stats(); s.Entries < 5000 {
		fill(100)
	}
	runtime.KeepAlive(c)
}

// Entries bounds memory, too: also in the long run, in which each chain of the
// table was long once.
func TestMemoryOfEntriesIsBounded(t *testing.T) {
	before := heap()
	c := newCache(t, cache.Config[int, int]{Entries: 10_000})
	var held [2]int64
	for i, times := range []int{10, 100} {
		for k := range times * 10_000 {
			c.Set(k, k)
		}
		held[i] = heap() - before
		if s := c.Stats(); s.Entries != 10_000 || held[i] > 10_000*250 {
			t.Errorf("%d entries take %d bytes", s.Entries, held[i])
		}
	}
	if held[1] > held[0]+50_000 {
		t.Errorf("it grows: %d, and then %d", held[0], held[1])
	}
	runtime.KeepAlive(c)
}

// When large values take the place of many small ones, the memory that those
// needed for themselves is of use again.
func TestMemoryAfterManySmall(t *testing.T) {
	const bytes = 16 << 20
	before := heap()
	c := newCache(t, cache.Config[int, []byte]{Bytes: bytes, Cost: func(_ int, v []byte) int64 { return int64(cap(v)) }})
	for i := range 200_000 {
		c.Set(i, nil)
	}
	for i := range 20_000 {
		c.Set(-i, make([]byte, 8<<10))
		c.Get(context.Background(), -i, nil) // one that is asked for again, or the small ones would stay
	}
	if s := c.Stats(); s.Entries > 10_000 {
		t.Errorf("%d entries: want nearly all of the small ones gone", s.Entries)
	}
	if held := heap() - before; held > bytes+50_000 {
		t.Errorf("%d bytes: %.3f of the bound", held, float64(held)/bytes)
	}
	runtime.KeepAlive(c)
}
