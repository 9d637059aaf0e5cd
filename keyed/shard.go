package keyed

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gcra"
)

// A table holds all buckets, spread over shards by the leading bits of the
// fingerprints.
type table[K comparable] struct {
	epoch    time.Time
	seed     seed
	shift    uint8 // by which a fingerprint becomes the number of its shard
	shards   []shard[K]
	pages    atomic.Int64
	maxPages int64
}

// A shard is part of the table, with a lock of its own.
type shard[K comparable] struct {
	mu    sync.Mutex // guards all that follows
	quota *gcra.Quota
	dir   directory
	own   map[uint64]*own // keys that have more than a bucket; nil if there are none

	denied    uint64
	forgotten uint64
	top       *top[K] // nil until a key is denied

	_ [shardBytes - 80]byte // so that neighbours share no cache line
}

const (
	shardBytes = 128

	// A shard of 256 kB is gone through in well under a millisecond, which is
	// as long as it is ever locked. Smaller ones have less contention.
	largestShard = 256 << 10
	pagesAShard  = 4
	fewShards    = 256
)

// newTable returns an empty table that takes no more than memory bytes.
func newTable[K comparable](memory int, k seed, q *gcra.Quota) *table[K] {
	n := max(min(memory/(pagesAShard*pageBytes), fewShards), memory/largestShard)
	n = min(1<<(bits.Len(uint(n))-1), 1<<16)
	t := &table[K]{epoch: epoch(), seed: k, shift: uint8(64 - bits.Len(uint(n-1))), shards: make([]shard[K], n)}
	for i := range t.shards {
		t.shards[i].quota = q
		t.shards[i].dir.skip = 64 - t.shift
	}
	// A page may be alone in up to two places of its directory, and these may
	// be half of what was allotted.
	const entry = 4 * 8
	t.maxPages = max(int64(memory-n*shardBytes)/(pageBytes+entry), int64(n))
	return t
}

// epoch is 1970 on the monotonic clock, so that a Bucket means the same
// instant in a snapshot.
func epoch() time.Time {
	now := time.Now()
	return now.Add(-time.Duration(now.UnixNano()))
}

func (t *table[K]) now() time.Duration { return time.Since(t.epoch) }

func (t *table[K]) shard(print uint64) *shard[K] { return &t.shards[print>>t.shift] }

// print returns the fingerprint of a key; never 0.
func (t *table[K]) print(sum func(seed, K) uint64, key K) uint64 {
	return max(sum(t.seed, key), 1)
}

// A place is where the bucket of a key is, or could be.
type place struct {
	quota  *gcra.Quota
	bucket gcra.Bucket

	print uint64
	level gcra.Bucket // up to which buckets are full
	page  *page       // nil if the key has its own bucket, or there is no page yet
	slot  *slot
	found bool // the slot is the key's
	own   *own
}

// allow takes n tokens of a key, if it has them.
func (s *shard[K]) allow(t *table[K], print uint64, now time.Duration, n int) bool {
	// Most of the time the key is known, and near its home.
	if s.own == nil && s.dir.pages != nil {
		near := s.dir.page(print).near(print)
		for i := range near {
			if near[i].print != print {
				continue
			}
			b, ok := s.quota.Allow(near[i].bucket, now, n)
			near[i].bucket = b
			return ok
		}
	}
	var p place
	s.find(&p, print, now)
	b, ok := p.quota.Allow(p.bucket, now, n)
	if ok {
		s.store(t, &p, b)
	}
	return ok
}

// find finds the place of a key, and its bucket.
func (s *shard[K]) find(p *place, print uint64, now time.Duration) {
	p.print = print
	if s.own != nil {
		if o := s.own[print]; o != nil {
			p.own, p.quota, p.bucket = o, o.quota, o.bucket
			return
		}
	}
	p.quota, p.level = s.quota, s.quota.Level(now)
	if s.dir.pages == nil {
		return
	}
	p.page = s.dir.page(print)
	if p.slot, p.found = p.page.find(print, p.level); p.found {
		p.bucket = p.slot.bucket
	} else {
		p.bucket = *p.page.floor(print)
	}
}

// store sets the bucket of a key. A new key gets a slot: one that is free, or
// one of a new page, or that of the key in least debt.
func (s *shard[K]) store(t *table[K], p *place, b gcra.Bucket) {
	switch {
	case p.own != nil:
		p.own.bucket = b
		return
	case p.found:
		p.slot.bucket = b
		return
	case b <= p.level:
		return // full: no different from no bucket
	case p.page == nil:
		t.pages.Add(1) // there is one for each shard
		p.page = new(page)
		s.dir.pages = []*page{p.page}
		p.slot, _ = p.page.find(p.print, p.level)
	}
	for p.slot.bucket > p.level && p.page.depth < s.dir.maxDepth() && t.grow() {
		s.forgotten += uint64(s.dir.split(p.page, p.print, p.level))
		p.page = s.dir.page(p.print)
		p.slot, _ = p.page.find(p.print, p.level)
	}
	if p.page.put(p.slot, p.print, b, p.level) {
		s.forgotten++
	}
}

// grow reports whether there may be one more page, and counts it.
func (t *table[K]) grow() bool {
	for {
		n := t.pages.Load()
		if n >= t.maxPages {
			return false
		}
		if t.pages.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// deny counts a denial of a key.
func (s *shard[K]) deny(print uint64, key K) {
	s.denied++
	if s.top == nil {
		s.top = new(top[K])
	}
	s.top.add(print, key)
}
