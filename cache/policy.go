package cache

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/weir-go/weir/internal/sketch"
)

// A node is the policy's part of an entry.
type node[K comparable, V any] struct {
	hash uint64 // of the key, seeded; set before add
	cost int64  // from 0 to the policy's bound; set before add

	hits atomic.Uint32 // since the policy last read it; stops at maxHits

	// Under the lock of the cache.
	queue      *queue[K, V]
	prev, next *entry[K, V]
}

// maxHits bounds the hits that an entry counts: two bits, as in S3-FIFO. A popular
// entry soon has them set, and a hit on it is only one load.
const maxHits = 3

// touch counts a hit, without a lock. Concurrent hits may count as one.
func (n *node[K, V]) touch() {
	if h := n.hits.Load(); h < maxHits {
		n.hits.Store(h + 1)
	}
}

// A policy chooses the entries to evict. All methods but touch need the lock of
// the cache.
//
// It is W-TinyLFU (Einziger, Friedman, Manes, ACM ToS 2017) with a clock (Corbató 1968)
// as its main queue. A new entry enters the window. If it is hit there, it moves to main;
// otherwise it competes with the oldest entry of main. An entry of main that was hit since
// it came to the front goes to the back. So a hit moves no entry.
//
// The share of the window adapts. A miss on a key that the window has lost
// recently shows that the window is too small, a miss on one that main has lost
// that main is (after ARC: Megiddo and Modha, FAST '03). Both memories have the same
// short reach: with ARC's, which is as long as the cache, a loop would grow the
// window without end.
type policy[K comparable, V any] struct {
	bound        int64 // on the sum of costs
	share        int64 // the part of bound that the window should have
	window, main queue[K, V]

	sketch     sketch.Sketch // how often keys were asked for
	fromMain   sketch.Ghost  // keys that main lost lately
	fromWindow sketch.Ghost  // keys that the window lost lately
	rng        rand.PCG
}

const (
	// least is the least share of the bound for main, 1/least, and that of the
	// window to begin with.
	least = 100
	// reach is the length of a ghost, as a share of the entries: 1/reach.
	reach = 16
	// chances bounds the entries that get a second chance for one eviction.
	chances = 16
	// warm is how often the loser must have been asked for to be admitted
	// nevertheless, once in luck contests. Otherwise an attacker with a key that
	// shares its counters with a popular one could keep all others out.
	warm, luck = 6, 128
)

// newPolicy returns a policy without entries; bound is at least 0. The same
// calls with the same seed evict the same entries.
func newPolicy[K comparable, V any](bound int64, seed uint64) *policy[K, V] {
	p := &policy[K, V]{bound: bound, share: bound / least}
	p.rng.Seed(seed, 0)
	p.clear()
	p.grow()
	return p
}

// add adds e. Then evict must be called until it returns nil.
func (p *policy[K, V]) add(e *entry[K, V]) {
	p.adapt(e.hash)
	next := &p.window.root
	if p.huge(e) { // it competes at once: else many entries would go for one that may never be asked for again
		next = p.window.front()
	}
	p.window.insert(e, next)
	if n := p.len(); n > p.sketch.Words() {
		p.grow()
	} else if n < p.sketch.Words()*3/8 && p.sketch.Words() > sketch.MinWords {
		p.shrink()
	}
	// While the cache fills, and when the window has to shrink, its oldest
	// entries move to main.
	room := p.bound - max(p.share, e.cost)
	for n := 0; n < 2 && p.window.cost > p.share && p.window.len > 1 && p.main.cost < room; n++ {
		if p.cost() > p.bound && p.huge(p.window.front()) {
			break
		}
		p.count(p.window.front())
		p.toMain(p.window.front())
	}
}

// replace puts e in the place of old, which it must have: e is as popular, but
// may have another cost. Then evict must be called until it returns nil.
func (p *policy[K, V]) replace(old, e *entry[K, V]) {
	q, next := old.queue, old.next
	q.remove(old)
	e.hits.Store(old.hits.Load())
	q.insert(e, next)
}

// remove forgets e, which it must have, but not how popular its key was.
func (p *policy[K, V]) remove(e *entry[K, V]) {
	p.count(e)
	e.queue.remove(e)
}

// evict removes an entry and returns it, or returns nil if the costs are within
// the bound. The entry that was added last stays, unless it is huge.
func (p *policy[K, V]) evict() *entry[K, V] {
	if p.cost() <= p.bound {
		return nil
	}
	e := p.victim()
	if e.queue == &p.main {
		p.fromMain.Put(e.hash)
	} else {
		p.fromWindow.Put(e.hash)
	}
	e.queue.remove(e)
	return e
}

func (p *policy[K, V]) victim() *entry[K, V] {
	var candidate *entry[K, V]
	var popular uint32
	if p.main.len == 0 || p.window.cost > p.share && (p.window.len > 1 || p.huge(p.window.front())) {
		candidate = p.window.front()
		var hit bool
		if popular, hit = p.count(candidate); hit {
			p.toMain(candidate)
			candidate = nil
		}
	}
	if p.main.len == 0 {
		return candidate
	}
	oldest := p.main.front()
	f, hit := p.count(oldest)
	for n := 0; hit && n < chances; n++ {
		p.toMain(oldest)
		oldest = p.main.front()
		f, hit = p.count(oldest)
	}
	switch {
	case candidate == nil:
		return oldest
	case popular > f, popular >= warm && p.rng.Uint64()%luck == 0:
		p.toMain(candidate)
		return oldest
	}
	return candidate
}

// count adds e's hits to the sketch and, when e leaves the window, its insertion:
// until then, a key that was asked for once is unknown. It returns how often the
// key was asked for before, including hits, and whether it was hit.
func (p *policy[K, V]) count(e *entry[K, V]) (before uint32, hit bool) {
	hits := e.hits.Load()
	if hits > 0 {
		e.hits.Store(0)
	}
	before = min(p.sketch.Estimate(e.hash)+hits, sketch.MaxCount)
	if e.queue == &p.window {
		p.sketch.Add(e.hash, hits+1)
	} else if hits > 0 {
		p.sketch.Add(e.hash, hits)
	}
	return before, hits > 0
}

// adapt moves the share of the window by one entry of average cost if a ghost
// has the hash of a new entry.
func (p *policy[K, V]) adapt(hash uint64) {
	n := p.len()
	step := max(p.cost()/int64(max(n, 1)), 1)
	if p.fromWindow.Take(hash, n/reach) {
		p.share += step
	}
	if p.fromMain.Take(hash, n/reach) {
		p.share -= step
	}
	p.share = min(max(p.share, 0), p.bound-p.bound/least)
}

func (p *policy[K, V]) len() int { return p.window.len + p.main.len }

func (p *policy[K, V]) cost() int64 { return p.window.cost + p.main.cost }

// huge reports whether an entry costs more than the window's share, and more than
// many entries.
func (p *policy[K, V]) huge(e *entry[K, V]) bool {
	const many = 8
	return e.cost > p.share && e.cost/many > p.cost()/int64(p.len()+1)
}

// clear forgets all entries, but not the popularity of their keys.
func (p *policy[K, V]) clear() {
	p.window.clear()
	p.main.clear()
}

func (p *policy[K, V]) grow() {
	p.sketch.Grow()
	p.fromWindow.Grow(p.sketch.Words() * 2 / reach)
	p.fromMain.Grow(p.sketch.Words() * 2 / reach)
}

// shrink halves the sketch and the ghosts, and loses a part of their content.
func (p *policy[K, V]) shrink() {
	p.sketch.Shrink()
	p.fromWindow.Shrink()
	p.fromMain.Shrink()
}

// toMain moves an entry to the back of main.
func (p *policy[K, V]) toMain(e *entry[K, V]) {
	e.queue.remove(e)
	p.main.insert(e, &p.main.root)
}

// queue is a ring of entries and the sum of their costs.
type queue[K comparable, V any] struct {
	root entry[K, V] // between the back and the front
	len  int
	cost int64
}

func (q *queue[K, V]) clear() {
	q.root.prev, q.root.next, q.len, q.cost = &q.root, &q.root, 0, 0
}

// front returns the first entry; root if there is none.
func (q *queue[K, V]) front() *entry[K, V] { return q.root.next }

// insert puts e before next.
func (q *queue[K, V]) insert(e, next *entry[K, V]) {
	e.queue, e.prev, e.next = q, next.prev, next
	e.prev.next, next.prev = e, e
	q.len++
	q.cost += e.cost
}

func (q *queue[K, V]) remove(e *entry[K, V]) {
	e.prev.next, e.next.prev = e.next, e.prev
	e.queue, e.prev, e.next = nil, nil, nil
	q.len--
	q.cost -= e.cost
}
