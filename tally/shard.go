package tally

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/topk"
	"github.com/weir-go/weir/internal/waitq"
)

// A table holds all counts, spread evenly over shards by their fingerprints.
type table struct {
	epoch    time.Time
	seed     siphash.Key // of fingerprints: it goes with a snapshot, so the hash has a written definition
	shards   []shard
	maxDepth uint8 // so that each shard has up to 2^maxDepth pages
	noTop    bool  // no keys are kept
	pages    atomic.Int64
}

// A shard is part of the table, with a lock of its own.
type shard struct {
	mu   sync.Mutex // guards all that follows
	rule *rule
	dir  directory

	denied    uint64
	forgotten uint64
	top       *topk.Sketch[string] // nil until a key is denied

	_ [shardBytes - 72]byte // so that neighbours share no cache line
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
func newTable(memory int, seed siphash.Key, r *rule) *table {
	t := &table{epoch: waitq.Epoch(), seed: seed}
	for t.maxDepth < largestShard && memory/shardMost(t.maxDepth+1) >= fewShards {
		t.maxDepth++
	}
	t.shards = make([]shard, memory/shardMost(t.maxDepth))
	for i := range t.shards {
		t.shards[i].rule = r
	}
	return t
}

// shardMost returns the most bytes that a shard takes.
func shardMost(depth uint8) int { return shardBytes + pageAndItsRef<<depth }

func (t *table) now() time.Duration { return time.Since(t.epoch) }

func (t *table) shard(print uint64) *shard {
	i, _ := bits.Mul64(print, uint64(len(t.shards)))
	return &t.shards[i]
}

// print returns the fingerprint of a key; never 0.
func (t *table) print(key string) uint64 { return max(t.seed.String(key), 1) }

// A place is where the count of a key is, or could be.
type place struct {
	print uint64
	count count // of the key or, if it has no slot, that of the floor
	page  *page // nil if there is none yet
	slot  *slot // nil if the key has none
}

// find finds the place of a key.
func (s *shard) find(t *table, print uint64) place {
	if s.dir.pages == nil {
		return place{print: print}
	}
	p := s.dir.page(print, uint64(len(t.shards)))
	if at := p.find(print); at != nil {
		return place{print, at.count, p, at}
	}
	return place{print, *p.floor(print), p, nil}
}

// take is Limiter.Take of a key, nil if it is not known.
func (s *shard) take(t *table, print uint64, key *string, now time.Duration, n, limit int) weir.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(t, print)
	if limit <= 0 {
		limit = s.rule.limit
	}
	c, d := s.rule.take(p.count, now, n, limit)
	switch {
	case n == 0:
	case !d.OK:
		s.deny(t, print, key)
	default:
		s.store(t, &p, now, c)
		if p.slot == nil && !s.rule.sliding {
			d.ResetAfter = s.rule.period // it begins its own window, whatever it starts from
		}
	}
	return d
}

// settle is Limiter.SettleAt. at is not after now.
func (s *shard) settle(t *table, print uint64, at, now time.Duration, was, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(t, print)
	switch {
	case n > was:
		c, took := s.rule.charge(p.count, now, n-was)
		s.store(t, &p, now, c)
		return was + took
	case p.slot == nil:
		return was
	}
	c, back := s.rule.refund(p.count, at, now, was-n)
	p.slot.count = c
	return was - back
}

// store sets the count of a key. A new key gets a slot: one that counts nothing,
// or one of a new page, or the least used.
func (s *shard) store(t *table, p *place, now time.Duration, c count) {
	switch {
	case p.slot != nil:
		p.slot.count = c
	case c != p.count: // else nothing is counted
		s.add(t, p, now, s.rule.begin(c, now))
	}
}

// add gives a slot to a key that has none.
func (s *shard) add(t *table, p *place, now time.Duration, c count) {
	if p.page == nil {
		t.pages.Add(1)
		p.page = new(page)
		s.dir.pages = []*page{p.page}
	}
	m := s.rule.moment(now)
	at, live := p.page.spare(p.print, s.rule, &m)
	for live && p.page.depth < t.maxDepth {
		t.pages.Add(1)
		shards := uint64(len(t.shards))
		s.forgotten += uint64(s.dir.split(p.page, p.print, shards, s.rule, &m))
		p.page = s.dir.page(p.print, shards)
		at, live = p.page.spare(p.print, s.rule, &m)
	}
	if live {
		s.forgotten++
	}
	p.page.put(at, p.print, c, live, s.rule, now)
}

// deny counts a denial of a key, nil if it is not known.
func (s *shard) deny(t *table, print uint64, key *string) {
	s.denied++
	if t.noTop || key == nil {
		return
	}
	if s.top == nil {
		s.top = new(topk.Sketch[string])
	}
	s.top.Add(print, *key)
}

// setRule puts all counts under another rule.
func (s *shard) setRule(t *table, r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.rule
	s.rule = r
	if r.alike(from) {
		return
	}
	now := t.now()
	var last *page
	for _, p := range s.dir.pages {
		if p == last {
			continue // neighbours may be the same
		}
		last = p
		for i := range p.floors {
			p.floors[i] = r.moved(p.floors[i], now, from)
		}
		for i := range p.slots {
			p.slots[i].count = r.moved(p.slots[i].count, now, from)
		}
	}
}
