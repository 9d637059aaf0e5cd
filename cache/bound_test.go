package cache_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/cache"
)

// bytesOf returns what the entries of a cache with nothing expired take of its
// Bytes.
func bytesOf[K comparable, V any](c *cache.Cache[K, V], cost func(K, V) int64) (sum int64) {
	for k, v := range c.All() {
		sum += cost(k, v) + entrySize[K, V]()
	}
	return sum
}

// entrySize returns what an entry takes beside its Cost.
func entrySize[K comparable, V any]() int64 {
	c, err := cache.New(cache.Config[K, V]{Bytes: 1 << 40, Cost: func(K, V) int64 { return -5 }}) // as 0
	if err != nil {
		panic(err)
	}
	var k K
	var v V
	c.Set(k, v)
	return c.Stats().Bytes
}

func TestEntriesAreBounded(t *testing.T) {
	for _, bound := range []int{1, 2, 7, 100} {
		c := newCache(t, config{Entries: bound})
		most := 0
		for i := range 100 * bound {
			key := fmt.Sprint(i)
			if i%2 == 0 {
				c.Set(key, i)
			} else if v, err := c.Get(context.Background(), key, func(context.Context, string) (int, error) { return i, nil }); v != i || err != nil {
				t.Fatalf("%d: %d, %v", i, v, err)
			}
			most = max(most, c.Stats().Entries)
		}
		if s := c.Stats(); most != bound || s.Entries != bound || s.Evicted != uint64(99*bound) {
			t.Errorf("%+v: %d entries at most: want %d", s, most, bound)
		}
		n := 0
		for range c.All() {
			n++
		}
		if n != bound {
			t.Errorf("All: %d: want %d", n, bound)
		}
	}
}

func TestBytesAreBounded(t *testing.T) {
	cost := func(key string, v int) int64 { return int64(len(key) + v) }
	own := entrySize[string, int]()
	c := newCache(t, config{Bytes: 100 * (own + 500), Cost: cost})
	for i := range 5000 {
		c.Set(fmt.Sprint(i%1000), rand.IntN(1000))
		s := c.Stats()
		if s.Bytes > 100*(own+500) {
			t.Fatalf("%+v: beyond the bound", s)
		}
		if i%100 == 0 && s.Bytes != bytesOf(c, cost) {
			t.Fatalf("%+v: the entries take %d", s, bytesOf(c, cost))
		}
		if i%7 == 0 {
			c.Delete(fmt.Sprint(rand.IntN(1000)))
		}
	}
	if s := c.Stats(); s.Evicted == 0 || s.Entries < 70 {
		t.Errorf("%+v", s)
	}
	c.Purge()
	if s := c.Stats(); s.Bytes != 0 || s.Entries != 0 {
		t.Errorf("%+v: want nothing", s)
	}
}

// A value that is larger than the bound by itself is returned and not kept. It
// displaces only the old value of its key. No cost overflows.
func TestCostWithoutEnd(t *testing.T) {
	c := newCache(t, cache.Config[int, int]{Bytes: 1 << 20, Cost: func(k, _ int) int64 {
		if k == 0 {
			return math.MaxInt64
		}
		return 4096
	}})
	for k := range 1000 {
		c.Set(k, k)
	}
	if s := c.Stats(); s.TooLarge != 1 || s.Bytes <= 0 || s.Bytes > 1<<20 || s.Entries > 256 {
		t.Errorf("%+v", s)
	}
}

func TestTooLarge(t *testing.T) {
	own := entrySize[string, int]()
	c := newCache(t, config{Bytes: 2*own + 1000, Cost: func(_ string, v int) int64 { return int64(v) }})
	get := func(key string, v int, want cache.Status) {
		t.Helper()
		got, s, err := c.Lookup(context.Background(), key, func(context.Context, string) (int, error) { return v, nil })
		if got != v || s != want || err != nil {
			t.Errorf("%d, %v, %v: want %v %d", got, s, err, want, v)
		}
	}
	get("a", 500, cache.Filled)
	get("b", 500, cache.Filled) // as much as there is
	get("large", int(own)+1001, cache.Filled)
	get("large", int(own)+1001, cache.Filled)
	get("a", 500, cache.Hit)
	get("b", 500, cache.Hit)
	if s := c.Stats(); s.TooLarge != 2 || s.Evicted != 0 || s.Entries != 2 || s.Bytes != 2*own+1000 {
		t.Errorf("%+v: want 2 too large, nothing evicted", s)
	}
	c.Set("a", int(own)+1001) // it grew: the old value is out of date
	if _, ok := c.Peek("a"); ok {
		t.Error("the old value is still there")
	}
	get("a", int(own)+1000, cache.Filled) // all of it, and nothing beside
	if s := c.Stats(); s.TooLarge != 3 || s.Entries != 1 || s.Bytes != 2*own+1000 {
		t.Errorf("%+v: want only one that is as large as all", s)
	}
	get("a", int(own)+1000, cache.Hit)
}

// A value that grows stays within the bound, and takes the room of others.
func TestValueThatGrows(t *testing.T) {
	own := entrySize[int, int]()
	c := newCache(t, cache.Config[int, int]{Bytes: 10 * (own + 10), Cost: func(_, v int) int64 { return int64(v) }})
	for i := range 10 {
		c.Set(i, 10)
	}
	if s := c.Stats(); s.Entries != 10 || s.Evicted != 0 {
		t.Errorf("%+v: want all 10", s)
	}
	c.Set(5, 20)
	if s := c.Stats(); s.Entries != 9 || s.Evicted != 1 || s.Bytes > 10*(own+10) {
		t.Errorf("%+v: want one to go", s)
	}
}

// A kept error takes of the bound what an entry does, and Cost is not asked.
func TestCostOfAKeptError(t *testing.T) {
	tell(t, config{Bytes: 1 << 20, Cost: func(string, int) int64 {
		t.Error("Cost of an error")
		return 1
	}, Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
		s.answers(0, errDown)
		s.want("failed: down")
		s.want("hit: down")
		if got, want := s.c.Stats().Bytes, entrySize[string, int](); got != want {
			t.Errorf("%d bytes: want %d", got, want)
		}
	})
}
