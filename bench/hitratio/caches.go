package main

import (
	"container/list"
	"context"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/hashicorp/golang-lru/simplelru"
	"github.com/maypok86/otter/v2"

	weir "github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/internal/heap"
)

// A cache has a function that answers a request. It inserts a key that the cache does
// not have.
type cache struct {
	get   func(key uint64) (hit bool)
	close func() // or nil
}

func newWeir(size int) cache {
	c, err := weir.New(weir.Config[uint64, uint64]{Entries: size})
	if err != nil {
		panic(err)
	}
	itself := func(_ context.Context, key uint64) (uint64, error) { return key, nil }
	return cache{get: func(key uint64) bool {
		_, status, _ := c.Lookup(context.Background(), key, itself)
		return status == weir.Hit
	}}
}

// newOtter returns otter at its best: maintenance is done at once, so that no read is
// lost in a buffer.
func newOtter(size int) cache {
	c := otter.Must(&otter.Options[uint64, uint64]{MaximumSize: size, Executor: func(f func()) { f() }})
	return cache{get: func(key uint64) bool {
		_, hit := c.GetIfPresent(key)
		if !hit {
			c.Set(key, key)
		}
		c.CleanUp()
		return hit
	}}
}

// newRistretto returns a cache that waits for each insertion.
func newRistretto(size int) cache {
	c, err := ristretto.NewCache(&ristretto.Config[uint64, uint64]{
		NumCounters: int64(size) * 10, MaxCost: int64(size), BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		panic(err)
	}
	return cache{close: c.Close, get: func(key uint64) bool {
		_, hit := c.Get(key)
		if !hit {
			c.Set(key, key, 1)
			c.Wait()
		}
		return hit
	}}
}

func newLRU(size int) cache {
	c, err := simplelru.NewLRU(size, nil)
	if err != nil {
		panic(err)
	}
	return cache{get: func(key uint64) bool {
		_, hit := c.Get(key)
		if !hit {
			c.Add(key, nil)
		}
		return hit
	}}
}

// s3fifo is S3-FIFO as published (Yang et al., SOSP '23, algorithm 1): a small
// queue of 10 %, a ghost queue as long as the main one, counters up to 3.
type s3fifo struct {
	size, smallSize    int
	byKey              map[uint64]*entry
	small, main, ghost list.List // the back is evicted first
	ghosts             map[uint64]*list.Element
}

type entry struct {
	key  uint64
	hits int // of SIEVE and, up to 3, of S3-FIFO, since it was last inspected
}

func newS3FIFO(size int) cache {
	c := &s3fifo{size: size, smallSize: max(size/10, 1), byKey: map[uint64]*entry{}, ghosts: map[uint64]*list.Element{}}
	return cache{get: c.get}
}

func (c *s3fifo) get(key uint64) bool {
	if e := c.byKey[key]; e != nil {
		e.hits = min(e.hits+1, 3)
		return true
	}
	for len(c.byKey) >= c.size {
		c.evict()
	}
	e := &entry{key: key}
	c.byKey[key] = e
	if g := c.ghosts[key]; g != nil {
		c.ghost.Remove(g)
		delete(c.ghosts, key)
		c.main.PushFront(e)
	} else {
		c.small.PushFront(e)
	}
	return false
}

func (c *s3fifo) evict() {
	if c.small.Len() < c.smallSize && c.main.Len() > 0 {
		e := c.main.Remove(c.main.Back()).(*entry)
		for ; e.hits > 0; e = c.main.Remove(c.main.Back()).(*entry) {
			e.hits--
			c.main.PushFront(e)
		}
		delete(c.byKey, e.key)
		return
	}
	for c.small.Len() > 0 {
		e := c.small.Remove(c.small.Back()).(*entry)
		if e.hits > 1 {
			e.hits = 0
			c.main.PushFront(e)
			continue
		}
		delete(c.byKey, e.key)
		c.ghosts[e.key] = c.ghost.PushFront(e.key)
		if c.ghost.Len() > c.size-c.smallSize {
			delete(c.ghosts, c.ghost.Remove(c.ghost.Back()).(uint64))
		}
		return
	}
}

// sieve is SIEVE (Zhang et al., NSDI '24).
type sieve struct {
	size  int
	byKey map[uint64]*list.Element
	queue list.List
	hand  *list.Element
}

func newSieve(size int) cache {
	return cache{get: (&sieve{size: size, byKey: map[uint64]*list.Element{}}).get}
}

func (c *sieve) get(key uint64) bool {
	if e := c.byKey[key]; e != nil {
		e.Value.(*entry).hits++
		return true
	}
	for len(c.byKey) >= c.size {
		if c.hand == nil {
			c.hand = c.queue.Back()
		}
		e := c.hand
		c.hand = e.Prev()
		s := e.Value.(*entry)
		if s.hits == 0 {
			c.queue.Remove(e)
			delete(c.byKey, s.key)
		}
		s.hits = 0
	}
	c.byKey[key] = c.queue.PushFront(&entry{key: key})
	return false
}

// optimum counts the hits of the cache that knows the future (Belady 1966): it
// evicts the key that is asked for last, be it the newest.
func optimum(keys []uint64, size int) (hits int) {
	next := make([]int, len(keys))
	last := map[uint64]int{}
	for i := len(keys) - 1; i >= 0; i-- {
		next[i] = len(keys) + i // never
		if n, ok := last[keys[i]]; ok {
			next[i] = n
		}
		last[keys[i]] = i
	}
	present := make(map[uint64]int, size+1)                   // the next request
	q := heap.New(func(a, b use) bool { return a.at > b.at }) // the farthest first
	for i, k := range keys {
		if _, ok := present[k]; ok {
			hits++
		}
		present[k] = next[i]
		q.Push(use{k, next[i]})
		for len(present) > size {
			u := q.Pop()
			if n, ok := present[u.key]; ok && n == u.at {
				delete(present, u.key)
			}
		}
	}
	return hits
}

type use struct {
	key uint64
	at  int
}
