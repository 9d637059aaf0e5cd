package cache

import (
	"sync"
	"testing"
)

// held plays a cache on a policy, and checks the policy after every step.
type held struct {
	t     *testing.T
	p     *policy[int, int]
	byKey map[int]*entry[int, int]
}

func hold(t *testing.T, bound int64) *held {
	return &held{t, newPolicy[int, int](bound, 1), map[int]*entry[int, int]{}}
}

func newEntry(key int, cost int64) *entry[int, int] {
	e := &entry[int, int]{key: key}
	e.hash, e.cost = mix(uint64(key)), cost
	return e
}

// ask touches the entry of a key, or adds one, and returns what was evicted.
func (h *held) ask(key int, cost int64) []int {
	if e := h.byKey[key]; e != nil {
		e.touch()
		return nil
	}
	e := newEntry(key, cost)
	h.byKey[key] = e
	h.p.add(e)
	return h.evict()
}

func (h *held) replace(key int, cost int64) []int {
	e := newEntry(key, cost)
	h.p.replace(h.byKey[key], e)
	h.byKey[key] = e
	return h.evict()
}

func (h *held) remove(key int) {
	h.p.remove(h.byKey[key])
	delete(h.byKey, key)
	h.check()
}

func (h *held) evict() (keys []int) {
	h.t.Helper()
	for e := h.p.evict(); e != nil; e = h.p.evict() {
		if h.byKey[e.key] != e {
			h.t.Fatalf("evicted %d, which is not there", e.key)
		}
		delete(h.byKey, e.key)
		keys = append(keys, e.key)
	}
	h.check()
	return keys
}

// check tests the invariants: costs are within the bound, lists are linked
// correctly, and contain exactly the entries held.
func (h *held) check() {
	h.t.Helper()
	p, n, sum := h.p, 0, int64(0)
	for _, q := range []*queue[int, int]{&p.window, &p.main} {
		last := &q.root
		length, cost := 0, int64(0)
		for e := q.front(); e != &q.root; last, e = e, e.next {
			if h.byKey[e.key] != e || e.queue != q || e.prev != last {
				h.t.Fatalf("entry %d is out of its place", e.key)
			}
			length++
			cost += e.cost
		}
		if q.root.prev != last || q.len != length || q.cost != cost {
			h.t.Fatalf("a queue has %d entries of cost %d, and says %d, %d", length, cost, q.len, q.cost)
		}
		n += length
		sum += cost
	}
	if n != len(h.byKey) {
		h.t.Fatalf("the policy has %d entries of %d", n, len(h.byKey))
	}
	if sum > p.bound {
		h.t.Fatalf("costs %d exceed the bound %d", sum, p.bound)
	}
	if p.share < 0 || p.share > p.bound {
		h.t.Fatalf("the share of the window is %d of %d", p.share, p.bound)
	}
	if p.sketch.Words() < n {
		h.t.Fatalf("a sketch of %d words for %d entries", p.sketch.Words(), n)
	}
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): a hash.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// add1 is ask without the checks, which take long in a large cache.
func (p *policy[K, V]) add1(h *held, key int) {
	if e := h.byKey[key]; e != nil {
		e.touch()
		return
	}
	e := newEntry(key, 1)
	h.byKey[key] = e
	h.p.add(e)
	for e := h.p.evict(); e != nil; e = h.p.evict() {
		delete(h.byKey, e.key)
	}
}

// Touches need no lock. For the race detector.
func TestTouchBesideAll(t *testing.T) {
	h := hold(t, 100)
	for key := range 100 {
		h.p.add1(h, key)
	}
	entries := make([]*entry[int, int], 0, 100)
	for _, e := range h.byKey {
		entries = append(entries, e)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range 10_000 {
				entries[i%len(entries)].touch()
			}
		})
	}
	for key := range 10_000 {
		h.p.add1(h, key%300)
	}
	wg.Wait()
	h.check()
}
