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
// it began.
//
// A table that has become too small, or much too large, is followed by another, which
// takes over its buckets a few at a time. Until the last, an entry is in the old table
// if its bucket there has not been taken over, and in the new one, or in both, if it
// has. So a reader that looks in the new table first and then in the old one finds it.
type table[K comparable, V any] struct {
	buckets []bucket[K, V] // a power of two
	entries int            // of both tables
	old     atomic.Pointer[table[K, V]]
	taken   atomic.Int64 // buckets of old, from the first
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
	return &t.buckets[t.index(hash)]
}

func (t *table[K, V]) index(hash uint64) uint64 { return hash & uint64(len(t.buckets)-1) }

// find returns the entry of a key, or nil.
func (t *table[K, V]) find(hash uint64, key K) *entry[K, V] {
	old := t.old.Load() // now: its buckets may be taken over meanwhile
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
	if old != nil {
		return old.find(hash, key)
	}
	return nil
}

// put adds an entry with a new key.
func (t *table[K, V]) put(e *entry[K, V]) {
	t.entries++
	t.home(e.hash).insert(e)
}

// home returns the table that has the entries with a hash; old may have them too.
func (t *table[K, V]) home(hash uint64) *table[K, V] {
	if old := t.old.Load(); old != nil && old.index(hash) >= uint64(t.taken.Load()) {
		return old
	}
	return t
}

func (t *table[K, V]) insert(e *entry[K, V]) {
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

// place returns the position of an entry; nil if it is not in this table.
func (t *table[K, V]) place(e *entry[K, V]) (*bucket[K, V], int) {
	for b := t.bucket(e.hash); b != nil; b = b.next.Load() {
		for i := range b.slots {
			if b.slots[i].Load() == e {
				return b, i
			}
		}
	}
	return nil, 0
}

// replace puts an entry in the place of another with the same key, in both tables.
func (t *table[K, V]) replace(was, e *entry[K, V]) {
	for table := t; table != nil; table = table.old.Load() {
		if b, i := table.place(was); b != nil {
			b.slots[i].Store(e)
		}
	}
}

// remove takes an entry out of both tables.
func (t *table[K, V]) remove(e *entry[K, V]) {
	t.entries--
	for table := t; table != nil; table = table.old.Load() {
		table.delete(e)
	}
}

func (t *table[K, V]) delete(e *entry[K, V]) {
	b, i := t.place(e)
	if b == nil {
		return
	}
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

// fit returns the table for n more entries: t, or one of another size that follows it.
// It also takes over some buckets, so that this is over before the size is to change again.
func (t *table[K, V]) fit(n int) *table[K, V] {
	const some = 4 // per entry that comes or goes; two are enough
	t.take(some)
	buckets := len(t.buckets)
	switch n += t.entries; {
	case n > buckets*slots*2/3:
		buckets *= 2
	case n < buckets*slots/4 && buckets > minBuckets:
		buckets /= 2
	default:
		return t
	}
	t.take(2 * len(t.buckets)) // the rest
	next := newTable[K, V](buckets)
	next.entries = t.entries
	next.old.Store(t)
	next.take(some)
	return next
}

// take takes over n buckets of the old table, or all if there are fewer.
func (t *table[K, V]) take(n int) {
	old := t.old.Load()
	for ; old != nil && n > 0; n-- {
		i := t.taken.Load()
		for e := range old.buckets[i].chain {
			t.insert(e)
		}
		t.taken.Store(i + 1)
		if int(i+1) == len(old.buckets) {
			t.old.Store(nil)
			return
		}
	}
}

// each calls yield with every entry until it returns false.
func (t *table[K, V]) each(yield func(*entry[K, V]) bool) {
	old, taken := t.old.Load(), t.taken.Load() // later, entries may be in both
	for i := range t.buckets {
		for e := range t.buckets[i].chain {
			if (old == nil || old.index(e.hash) < uint64(taken)) && !yield(e) {
				return
			}
		}
	}
	if old == nil {
		return
	}
	for i := int(taken); i < len(old.buckets); i++ {
		for e := range old.buckets[i].chain {
			if !yield(e) {
				return
			}
		}
	}
}

// chain calls yield with the entries of b and of the buckets behind it.
func (b *bucket[K, V]) chain(yield func(*entry[K, V]) bool) {
	for ; b != nil; b = b.next.Load() {
		for i := range b.slots {
			if e := b.slots[i].Load(); e != nil && !yield(e) {
				return
			}
		}
	}
}
