package keyed

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/topk"
	"github.com/weir-go/weir/internal/waitq"
)

// A table holds all buckets, spread evenly over shards by their fingerprints.
type table[K comparable] struct {
	epoch    time.Time
	seed     siphash.Key // of fingerprints: it goes with a snapshot, so the hash has a written definition
	shards   []shard[K]
	maxDepth uint8 // so that each shard has up to 2^maxDepth pages
	noTop    bool  // no keys are kept
	pages    atomic.Int64
}

// A shard is part of the table, with a lock of its own.
type shard[K comparable] struct {
	mu    sync.Mutex // guards all that follows
	quota *gcra.Quota
	dir   directory
	own   map[uint64]*own // keys that have more than a bucket; nil if there are none

	denied    uint64
	forgotten uint64
	top       *topk.Sketch[K] // nil until a key is denied

	_ [shardBytes - 80]byte // so that neighbours share no cache line
}

const (
	shardBytes = 128

	// Shards are many, so that goroutines seldom meet, and small, so that to go
	// through one takes well under a millisecond. All of them are allowed as
	// many pages: with less than their share, keys would be forgotten early.
	fewShards     = 256
	largestShard  = 6 // as a power of two, in pages
	pageAndItsRef = pageBytes + 8
)

// newTable returns an empty table that takes no more than memory bytes.
func newTable[K comparable](memory int, k siphash.Key, q *gcra.Quota) *table[K] {
	t := &table[K]{epoch: waitq.Epoch(), seed: k}
	for t.maxDepth < largestShard && memory/shardMost(t.maxDepth+1) >= fewShards {
		t.maxDepth++
	}
	t.shards = make([]shard[K], memory/shardMost(t.maxDepth))
	for i := range t.shards {
		t.shards[i].quota = q
	}
	return t
}

// shardMost returns the most bytes that a shard takes.
func shardMost(depth uint8) int { return shardBytes + pageAndItsRef<<depth }

func (t *table[K]) now() time.Duration { return time.Since(t.epoch) }

func (t *table[K]) shard(print uint64) *shard[K] {
	i, _ := bits.Mul64(print, uint64(len(t.shards)))
	return &t.shards[i]
}

// print returns the fingerprint of a key; never 0.
func (t *table[K]) print(sum func(siphash.Key, K) uint64, key K) uint64 {
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
		near := s.dir.page(print, uint64(len(t.shards))).near(print)
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
	s.find(t, &p, print, now)
	b, ok := p.quota.Allow(p.bucket, now, n)
	if ok {
		s.store(t, &p, b)
	}
	return ok
}

// find finds the place of a key, and its bucket.
func (s *shard[K]) find(t *table[K], p *place, print uint64, now time.Duration) {
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
	p.page = s.dir.page(print, uint64(len(t.shards)))
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
	case b <= p.level || b == p.bucket:
		return // no different from no bucket
	case p.page == nil:
		t.pages.Add(1)
		p.page = new(page)
		s.dir.pages = []*page{p.page}
		p.slot, _ = p.page.find(p.print, p.level)
	}
	for p.slot.bucket > p.level && p.page.depth < t.maxDepth {
		t.pages.Add(1)
		s.forgotten += uint64(s.dir.split(p.page, p.print, uint64(len(t.shards)), p.level))
		p.page = s.dir.page(p.print, uint64(len(t.shards)))
		p.slot, _ = p.page.find(p.print, p.level)
	}
	if p.page.put(p.slot, p.print, b, p.level) {
		s.forgotten++
	}
}

// deny counts a denial of a key, nil if it is not known.
func (s *shard[K]) deny(t *table[K], print uint64, key *K) {
	s.denied++
	if t.noTop || key == nil {
		return
	}
	if s.top == nil {
		s.top = new(topk.Sketch[K])
	}
	s.top.Add(print, *key)
}
