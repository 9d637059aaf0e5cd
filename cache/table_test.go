package cache

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// A pair is a table and what it should hold.
type pair struct {
	t    *table[int, int]
	want map[int]*entry[int, int]
	hash func(key int) uint64
}

func newPair(hash func(int) uint64) *pair {
	return &pair{newTable[int, int](minBuckets), map[int]*entry[int, int]{}, hash}
}

func (p *pair) put(key int) {
	e := &entry[int, int]{key: key}
	e.hash = p.hash(key)
	if old := p.want[key]; old != nil {
		p.t.replace(old, e)
	} else {
		p.t = p.t.fit(1)
		p.t.put(e)
	}
	p.want[key] = e
}

func (p *pair) remove(key int) {
	if e := p.want[key]; e != nil {
		p.t.remove(e)
		delete(p.want, key)
		p.t = p.t.fit(0)
	}
}

func (p *pair) check(t *testing.T, keys int) {
	t.Helper()
	for key := range keys {
		if got := p.t.find(p.hash(key), key); got != p.want[key] {
			t.Fatalf("find(%d) = %p: want %p", key, got, p.want[key])
		}
	}
	n := 0
	p.t.each(func(e *entry[int, int]) bool {
		n++
		if p.want[e.key] != e {
			t.Fatalf("each: %d is %p: want %p", e.key, e, p.want[e.key])
		}
		return true
	})
	if n != len(p.want) || p.t.entries != n {
		t.Fatalf("each: %d entries, count %d: want %d", n, p.t.entries, len(p.want))
	}
	if b := len(p.t.buckets); b > minBuckets && b > max(n, 1) || n > b*slots*2/3 || b&(b-1) != 0 {
		t.Fatalf("%d buckets for %d entries", b, n)
	}
}

// hashes are good ones and bad ones: all in a chain, all of a tag, all of both.
var hashes = []func(int) uint64{
	func(key int) uint64 { return uint64(key) * 0x9e37_79b9_7f4a_7c15 },
	func(key int) uint64 { return uint64(key) << 57 },
	func(key int) uint64 { return uint64(key) },
	func(key int) uint64 { return 1<<63 | uint64(key&1)<<57 }, // two tags that differ by their lowest bit
}

// Whatever is put, replaced and removed, a table holds what a map does.
func TestTableIsAMap(t *testing.T) {
	for i, hash := range hashes {
		chance := rand.New(rand.NewPCG(uint64(i), 3))
		p := newPair(hash)
		for step := range 6000 {
			if key := chance.IntN(200); step/1000%2 == chance.IntN(4)/3 { // it grows for a while, then shrinks
				p.put(key)
			} else {
				p.remove(key)
			}
			if step%10 == 0 {
				p.check(t, 200)
			}
		}
		for key := range 200 {
			p.remove(key)
		}
		p.check(t, 200)
		for b := range p.t.buckets {
			if p.t.buckets[b].next.Load() != nil {
				t.Errorf("hash %d: an empty table has a chain", i)
			}
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add(uint8(0), []byte{1, 2, 3, 129, 2})
	f.Add(uint8(3), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 129, 130, 131, 132, 133, 134, 135, 136, 137, 1, 2})
	f.Fuzz(func(t *testing.T, hash uint8, ops []byte) {
		p := newPair(hashes[int(hash)%len(hashes)])
		for _, op := range ops {
			if key := int(op & 127); op < 128 {
				p.put(key)
			} else {
				p.remove(key)
			}
		}
		p.check(t, 128)
	})
}

// A bucket takes as many entries as it has slots before it needs another.
func TestBucketsAreFilled(t *testing.T) {
	p := newPair(func(int) uint64 { return 0 })
	for key := range slots {
		p.put(key)
	}
	if p.t.buckets[0].next.Load() != nil {
		t.Errorf("%d entries make a chain", slots)
	}
	p.check(t, slots)
}

// The view ends where its reader wants.
func TestEachStops(t *testing.T) {
	p := newPair(hashes[0])
	for key := range 100 {
		p.put(key)
	}
	n := 0
	p.t.each(func(*entry[int, int]) bool { n++; return n < 7 })
	if n != 7 {
		t.Errorf("%d calls: want 7", n)
	}
}

// A key that is constantly there is found at any time, while others come and
// go in its chain, the chain loses buckets, and tables take each other's place.
func TestFindNeverMissesWhatStays(t *testing.T) {
	for i, hash := range hashes {
		p := newPair(hash)
		var current atomic.Pointer[table[int, int]]
		const stay, all = 30, 300
		for key := range all { // the keys that stay are spread over the chain
			p.put(key)
		}
		current.Store(p.t)
		var end atomic.Bool
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for !end.Load() {
					for key := 0; key < all; key += all / stay {
						if e := current.Load().find(hash(key), key); e == nil || e.key != key {
							t.Errorf("hash %d: %d is not found", i, key)
							return
						}
					}
				}
			})
		}
		chance := rand.New(rand.NewPCG(uint64(i), 4))
		for step := range 30_000 {
			key := chance.IntN(all)
			switch {
			case key%(all/stay) == 0 && chance.IntN(2) == 0:
				p.put(key) // replaced
			case key%(all/stay) == 0:
			case step/5000%2 == chance.IntN(8)/7:
				p.remove(key)
			default:
				p.put(key)
			}
			current.Store(p.t)
		}
		end.Store(true)
		wg.Wait()
		p.check(t, all)
	}
}
