package keyedtable

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
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
	clock    func() time.Time // nil for the real one
	seed     siphash.Key      // of fingerprints: it is part of a snapshot, so the hash has a written definition
	layout   *pagetable.Layout
	shards   []shard[K]
	maxDepth atomic.Uint32 // so that each shard has up to 2^maxDepth pages; written under common.changes
	pages    atomic.Int64
}

// A shard is a part of the table with a lock.
type shard[K comparable] struct {
	mu    sync.Mutex // guards all that follows
	dir   pagetable.Directory
	quota *gcra.Quota     // of buckets; nil in a table of windows
	own   map[uint64]*own // buckets that have more than a slot holds; nil if there are none
	loose looseTakes      // the last field that a take from a bucket needs: they are one cache line

	rule      *pagetable.Rule // of windows; nil in a table of buckets
	denied    uint64
	forgotten uint64
	top       *topk.Sketch[K] // nil until a key is denied

	_ [shardBytes - 96]byte // so that neighbours share no cache line
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

// newTable returns an empty table of buckets, or of windows if r is not nil.
func newTable[K comparable](memory int, seed siphash.Key, q *gcra.Quota, r *pagetable.Rule) *table[K] {
	t := &table[K]{epoch: waitq.Epoch(), seed: seed, layout: pagetable.Buckets}
	if r != nil {
		t.layout = pagetable.Windows
	}
	depth := uint8(0)
	for depth < largestShard && memory/shardMost(depth+1) >= fewShards {
		depth++
	}
	t.maxDepth.Store(uint32(depth))
	t.shards = make([]shard[K], memory/shardMost(depth))
	for i := range t.shards {
		t.shards[i].quota, t.shards[i].rule = q, r
	}
	return t
}

// shardMost returns the most bytes that a shard takes.
func shardMost(depth uint8) int { return shardBytes + pageAndItsRef<<depth }

func (t *table[K]) now() time.Duration {
	if t.clock != nil {
		return t.clock().Sub(t.epoch)
	}
	return time.Since(t.epoch)
}

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
	for live && uint32(p.page.Depth()) < t.maxDepth.Load() {
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
func (s *shard[K]) deny(print uint64, key *K) {
	s.denied++
	if key == nil {
		return
	}
	if s.top == nil {
		s.top = new(topk.Sketch[K])
	}
	s.top.Add(print, *key)
}

// common is the part that Buckets and Windows have in common.
type common[K comparable] struct {
	cfg   Config
	hash  hash[K]
	table atomic.Pointer[table[K]]

	changes sync.Mutex // held for a change or a copy of the whole, however long it takes
}

// Bytes returns the memory, by default DefaultMemory, or an error if it makes no sense.
func (c Config) Bytes() (int, error) {
	memory := cmp.Or(c.Memory, DefaultMemory)
	if memory < MinMemory || memory > MaxMemory {
		return 0, fmt.Errorf("keyed: Memory = %d: must be 0, or from %d to %d", memory, MinMemory, int64(MaxMemory))
	}
	return memory, nil
}

// init returns an error that names the field of cfg that makes no sense.
func (c *common[K]) init(cfg Config, q *gcra.Quota, r *pagetable.Rule) error {
	var err error
	if cfg.Memory, err = cfg.Bytes(); err != nil {
		return err
	}
	c.cfg, c.hash = cfg, newHash[K]()
	c.table.Store(newTable[K](cfg.Memory, siphash.New(), q, r))
	return nil
}

// setMemory bounds the memory for counts from now on: the number of shards stays, and the
// bound of each is a power of two, from 1 to 64 pages. It returns the bound of the table.
// merge joins the pages of a shard, under its lock.
func (c *common[K]) setMemory(memory int, merge func(t *table[K], s *shard[K], depth uint8) (less int, forgotten uint64)) int {
	c.changes.Lock()
	defer c.changes.Unlock()
	c.cfg.Memory = max(memory, MinMemory)
	t := c.table.Load()
	depth := uint8(largestShard)
	for depth > 0 && len(t.shards)*shardMost(depth) > memory {
		depth--
	}
	t.maxDepth.Store(uint32(depth))
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		less, forgotten := merge(t, s, depth)
		t.pages.Add(-int64(less))
		s.forgotten += forgotten
		s.mu.Unlock()
	}
	return len(t.shards) * shardMost(depth)
}

// MemoryMost returns the most memory, in bytes, that counts can take.
func (c *common[K]) MemoryMost() int {
	t := c.table.Load()
	return len(t.shards) * shardMost(uint8(t.maxDepth.Load()))
}

// Fingerprint returns the fingerprint of a key, until Restore. A call by
// fingerprint need not hash the key again, or keep it.
func (c *common[K]) Fingerprint(key K) uint64 { return c.table.Load().print(c.hash.sum, key) }

// FingerprintWith returns the fingerprint of a key together with two numbers, until Restore.
func (c *common[K]) FingerprintWith(key K, m, n uint64) uint64 {
	t := c.table.Load()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], t.print(c.hash.sum, key))
	binary.LittleEndian.PutUint64(b[8:], m)
	binary.LittleEndian.PutUint64(b[16:], n)
	print := t.seed.Bytes(b[:])
	if c.hash.shared {
		print = withSlot(print, uint16(binary.LittleEndian.Uint64(b[:])))
	}
	return max(print, 1)
}

// Top returns the n keys most denied.
func (c *common[K]) Top(n int) []topk.Count[K] {
	var all []topk.Count[K]
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
		most[i].Key = shown(most[i].Key)
	}
	return most
}

// Stats is the state, and the counts since New or Restore.
type Stats struct {
	Denied    uint64
	Forgotten uint64
	Waiting   int
	Memory    int
	Own       int
}

// Stats returns the state and the counts.
func (c *common[K]) Stats() Stats {
	t := c.table.Load()
	st := Stats{Memory: int(t.pages.Load())*pagetable.Bytes + len(t.shards)*shardBytes}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		st.Denied += s.denied
		st.Forgotten += s.forgotten
		st.Own += len(s.own)
		st.Memory += len(s.dir.Pages) * 8
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
