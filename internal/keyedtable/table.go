package keyedtable

import (
	"math/bits"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/pagetable"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/topk"
	"github.com/weir-go/weir/internal/waitq"
)

// A table holds the values of all keys, spread evenly over shards by their
// fingerprints.
type table[K comparable] struct {
	epoch    time.Time
	seed     siphash.Key // of fingerprints: it is part of a snapshot, so the hash has a written definition
	layout   *pagetable.Layout
	shards   []shard[K]
	maxDepth uint8 // so that each shard has up to 2^maxDepth pages
	noTop    bool  // no keys are kept
	pages    atomic.Int64
}

// A shard is a part of the table with a lock.
type shard[K comparable] struct {
	mu    sync.Mutex // guards all that follows
	dir   pagetable.Directory
	quota *gcra.Quota     // of buckets; nil in a table of windows
	rule  *pagetable.Rule // of windows; nil in a table of buckets
	own   map[uint64]*own // buckets that have more than a slot holds; nil if there are none

	denied    uint64
	forgotten uint64
	top       *topk.Sketch[K] // nil until a key is denied

	_ [shardBytes - 88]byte // so that neighbours share no cache line
}

const (
	shardBytes = 128

	// Shards are many, so that goroutines seldom meet, and small, so that to go
	// through one takes well under a millisecond. All of them are allowed as
	// many pages: with less than their share, keys would be forgotten early.
	fewShards     = 256
	largestShard  = 6 // as a power of two, in pages
	pageAndItsRef = pagetable.Bytes + 8
)

// newTable returns an empty table as the Config has it.
func newTable[K comparable](cfg *Config, l *pagetable.Layout, seed siphash.Key) *table[K] {
	t := &table[K]{epoch: waitq.Epoch(), seed: seed, layout: l, noTop: cfg.NoTop}
	for t.maxDepth < largestShard && cfg.Memory/shardMost(t.maxDepth+1) >= fewShards {
		t.maxDepth++
	}
	t.shards = make([]shard[K], cfg.Memory/shardMost(t.maxDepth))
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

// A place is where the value of a key is, or could be.
type place struct {
	print uint64
	value pagetable.Value // of the key or, if it has no slot, of the floor
	page  *pagetable.Page // nil if there is none yet
	at    int             // the index of the value; 0 if the key has no slot
	spare int             // the one that law.spare returns; 0 if that is not known
	live  bool
}

// find finds the place of a key.
func (s *shard[K]) find(t *table[K], p *place, print uint64) {
	p.print = print
	if s.dir.Pages == nil {
		return
	}
	p.page = s.dir.Page(print, uint64(len(t.shards)))
	if p.at = t.layout.Find(p.page, print); p.at != 0 {
		p.value = t.layout.Get(p.page, p.at)
	} else {
		p.value = t.layout.Get(p.page, t.layout.Floor(print))
	}
}

// add gives a slot to a key that has none: one that counts nothing, or one of a
// new page, or that of the key of least weight.
func add[K comparable, L pagetable.Law](t *table[K], s *shard[K], p *place, v pagetable.Value, by L) {
	shards := uint64(len(t.shards))
	if p.page == nil {
		t.pages.Add(1)
		p.page = new(pagetable.Page)
		s.dir.Pages = []*pagetable.Page{p.page}
	}
	at, live := p.spare, p.live
	if at == 0 {
		at, live = by.Spare(t.layout, p.page, p.print)
	}
	for live && p.page.Depth() < t.maxDepth {
		t.pages.Add(1)
		s.forgotten += pagetable.Split(&s.dir, t.layout, p.page, p.print, shards, by)
		p.page = s.dir.Page(p.print, shards)
		at, live = by.Spare(t.layout, p.page, p.print)
	}
	if live {
		s.forgotten++
	}
	pagetable.Put(t.layout, p.page, at, p.print, v, live, by)
	p.at, p.value = at, v
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

// live returns the number of live keys: an estimate from one page.
func live[K comparable, L pagetable.Law](t *table[K], s *shard[K], by L) (n int) {
	if s.dir.Pages == nil {
		return 0
	}
	p := s.dir.Pages[0]
	for i := t.layout.First; i < pagetable.Words; i += t.layout.Words {
		if by.Weight(t.layout.Get(p, i+1)) > 0 {
			n++
		}
	}
	return n << p.Depth() // each prefix is as likely
}

// change changes all values of a shard.
func (s *shard[K]) change(t *table[K], f func(pagetable.Value) pagetable.Value) {
	s.dir.All(func(p *pagetable.Page) {
		t.layout.Each(func(at int) { t.layout.Set(p, at, f(t.layout.Get(p, at))) })
	})
}

// Common is the part that Buckets and Windows have in common.
type Common[K comparable] struct {
	cfg   Config
	mask  mask
	hash  hash[K]
	table atomic.Pointer[table[K]]

	changes sync.Mutex // held for a change or a copy of the whole, however long it takes
}

func (c *Common[K]) init(cfg Config) {
	c.cfg = cfg.withDefaults()
	c.mask = mask{c.cfg.IPv4, c.cfg.IPv6}
	c.hash = newHash[K](c.mask)
}

// Fingerprint returns the fingerprint of a key, until Restore. A call by
// fingerprint need not hash the key again, or keep it.
func (c *Common[K]) Fingerprint(key K) uint64 { return c.table.Load().print(c.hash.sum, key) }

// A Denied is how often a key was denied; Over is by how much that may be too
// high.
type Denied[K comparable] = topk.Count[K]

// Top returns the n keys most denied.
func (c *Common[K]) Top(n int) []Denied[K] {
	var all []Denied[K]
	t := c.table.Load()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if s.top != nil {
			all = s.top.AppendTo(all)
		}
		s.mu.Unlock()
	}
	most := topk.Most(all, n)
	for i := range most {
		most[i].Key = c.shown(most[i].Key)
	}
	return most
}

// shown returns the key that stands for all that have the same value.
func (c *Common[K]) shown(key K) K {
	switch any(new(K)).(type) {
	case *netip.Addr:
		return any(c.mask.masked(any(key).(netip.Addr))).(K)
	case *netip.Prefix:
		return any(maskedPrefix(any(key).(netip.Prefix))).(K)
	}
	return key
}

// Stats is the state, and the counts since New or Restore.
type Stats struct {
	Denied    uint64
	Forgotten uint64
	Waiting   int
	Memory    int
	Keys      int
	Own       int
}

// stats returns the Stats; keys counts those of a shard, under its lock.
func (c *Common[K]) stats(keys func(*table[K], *shard[K]) int) Stats {
	t := c.table.Load()
	st := Stats{Memory: int(t.pages.Load())*pagetable.Bytes + len(t.shards)*shardBytes}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		st.Denied += s.denied
		st.Forgotten += s.forgotten
		st.Own += len(s.own)
		st.Memory += len(s.dir.Pages) * 8
		st.Keys += keys(t, s)
		s.mu.Unlock()
	}
	return st
}

// checkCost panics before a lock is taken.
func checkCost(n int) {
	if n < 0 {
		panic("keyed: negative cost")
	}
}
