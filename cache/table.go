package cache

import (
	"math/bits"
	"sync/atomic"
)

// A table finds entries by key. Readers take no lock; writers hold the Cache's
// mutex.
//
// Its buckets are chained, each in a cache line of 64 bytes. An entry never moves
// within a table, so a reader that walks a chain misses no entry that was there when
// it began. A table that has become too small, or much too large, is copied: a
// reader of the old one sees the state at the time of the copy.
type table[K comparable, V any] struct {
	buckets []bucket[K, V] // a power of two
	entries int
}

const (
	slots      = 6 // entries in a bucket
	minBuckets = 8 // the size of an empty table
)

type bucket[K comparable, V any] struct {
	tags  atomic.Uint64 // a byte for each slot, from the lowest: the tag of its entry, or 0
	slots [slots]atomic.Pointer[entry[K, V]]
	next  atomic.Pointer[bucket[K, V]]
}

func newTable[K comparable, V any](buckets int) *table[K, V] {
	return &table[K, V]{buckets: make([]bucket[K, V], buckets)}
}

// tag returns seven bits of a hash; other bits choose the bucket.
func tag(hash uint64) uint64 { return hash>>57 | 0x80 }

const (
	lows  = 0x0101_0101_0101_0101
	highs = 0x8080_8080_8080_8080
)

// match sets the highest bit of each byte of tags that equals tag, and perhaps of
// a byte that follows one.
func match(tags, tag uint64) uint64 {
	x := tags ^ tag*lows
	return (x - lows) &^ x & highs
}

func (t *table[K, V]) bucket(hash uint64) *bucket[K, V] {
	return &t.buckets[hash&uint64(len(t.buckets)-1)]
}

// find returns the entry of a key, or nil.
func (t *table[K, V]) find(hash uint64, key K) *entry[K, V] {
	for b := t.bucket(hash); b != nil; b = b.next.Load() {
		for m := match(b.tags.Load(), tag(hash)); m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m) / 8
			if i >= slots {
				break
			}
			if e := b.slots[i].Load(); e != nil && e.key == key {
				return e
			}
		}
	}
	return nil
}

// put adds an entry with a new key.
func (t *table[K, V]) put(e *entry[K, V]) {
	t.entries++
	b := t.bucket(e.hash)
	for {
		tags := b.tags.Load()
		if free := ^tags & highs; free != 0 {
			if i := bits.TrailingZeros64(free) / 8; i < slots {
				b.slots[i].Store(e) // before the tag that leads readers here
				b.tags.Store(tags | tag(e.hash)<<(8*i))
				return
			}
		}
		next := b.next.Load()
		if next == nil {
			next = new(bucket[K, V])
			b.next.Store(next)
		}
		b = next
	}
}

// place returns the position of an entry of the table.
func (t *table[K, V]) place(e *entry[K, V]) (*bucket[K, V], int) {
	for b := t.bucket(e.hash); ; b = b.next.Load() {
		for i := range b.slots {
			if b.slots[i].Load() == e {
				return b, i
			}
		}
	}
}

// replace puts an entry in the place of one with the same key.
func (t *table[K, V]) replace(old, e *entry[K, V]) {
	b, i := t.place(old)
	b.slots[i].Store(e)
}

// remove takes out an entry of the table.
func (t *table[K, V]) remove(e *entry[K, V]) {
	t.entries--
	b, i := t.place(e)
	b.tags.Store(b.tags.Load() &^ (0xff << (8 * i)))
	b.slots[i].Store(nil)
	if b.tags.Load() != 0 {
		return
	}
	// Remove an empty bucket from its chain. A reader that is in it continues
	// with its next bucket.
	for p := t.bucket(e.hash); p != b; p = p.next.Load() {
		if p.next.Load() == b {
			p.next.Store(b.next.Load())
			return
		}
	}
}

// full reports whether the table should grow before another entry comes.
func (t *table[K, V]) full() bool { return t.entries >= len(t.buckets)*slots*2/3 }

// sparse reports whether the table should shrink.
func (t *table[K, V]) sparse() bool { return t.entries < len(t.buckets) && len(t.buckets) > minBuckets }

// sized returns a copy with that many buckets.
func (t *table[K, V]) sized(buckets int) *table[K, V] {
	g := newTable[K, V](buckets)
	for e := range t.each {
		g.put(e)
	}
	return g
}

// each calls yield with every entry until it returns false.
func (t *table[K, V]) each(yield func(*entry[K, V]) bool) {
	for i := range t.buckets {
		for b := &t.buckets[i]; b != nil; b = b.next.Load() {
			for j := range b.slots {
				if e := b.slots[j].Load(); e != nil && !yield(e) {
					return
				}
			}
		}
	}
}
