package gate

import (
	"math"
	"time"

	"github.com/weir-go/weir"
)

// A rank orders waiters: the higher goes first, and is evicted last.
type rank struct {
	below bool // its partition is below its guarantee
	level int64
}

func (a rank) over(b rank) bool {
	return a.below && !b.below || a.below == b.below && a.level > b.level
}

// first returns the slot of the next waiter in the queues, 0 if they are empty.
func (g *Gate[W]) first(now time.Duration) int {
	if len(g.bands) == 1 && g.bands[0].len > 0 {
		return g.front(&g.bands[0], now)
	}
	var best *band
	var bestAged, bestPlain rank
	for i := range g.bands {
		b := &g.bands[i]
		if b.len == 0 {
			continue
		}
		plain := rank{g.below(b.partition), int64(b.priority)}
		aged := plain
		if g.cfg.Aging > 0 {
			aged.level += g.age(g.oldest(b), now)
		}
		if best == nil || plain.over(bestPlain) {
			bestPlain = plain
		}
		if best == nil || aged.over(bestAged) || aged == bestAged && g.seq(g.oldest(b)) < g.seq(g.oldest(best)) {
			best, bestAged = b, aged
		}
	}
	if best == nil {
		return 0
	}
	if bestPlain.over(rank{g.below(best.partition), int64(best.priority)}) {
		return g.oldest(best) // it is its age that puts it first
	}
	return g.front(best, now)
}

// front returns the next waiter in b.
func (g *Gate[W]) front(b *band, now time.Duration) int {
	q := g.fairest(b)
	if g.newestFirst(q, now) {
		return q.tail
	}
	return q.head
}

// outranks reports whether one waiter goes before another of another band.
func (g *Gate[W]) outranks(slot, other int, now time.Duration) bool {
	if len(g.bands) == 1 {
		return false
	}
	return g.rankOf(slot, now).over(g.rankOf(other, now))
}

func (g *Gate[W]) rankOf(slot int, now time.Duration) rank {
	r := g.slots.all[slot].req
	return rank{g.below(r.Partition), int64(r.Priority) + g.age(slot, now)}
}

// age returns the levels that a waiter has risen.
func (g *Gate[W]) age(slot int, now time.Duration) int64 {
	if g.cfg.Aging <= 0 {
		return 0
	}
	return int64((now - g.slots.all[slot].since) / g.cfg.Aging)
}

// partitionOf returns the number of a request's partition, 0 if it has none.
func (g *Gate[W]) partitionOf(r *Request) int {
	if r.Partition < 0 || r.Partition > len(g.cfg.Partitions) {
		return 0
	}
	return r.Partition
}

// guarantee returns the units that are guaranteed to a partition.
func (g *Gate[W]) guarantee(partition int) int {
	if partition <= 0 || partition > len(g.cfg.Partitions) {
		return 0
	}
	// Not rounded up for an error of the multiplication: 0.1 · 30 is more than 3.
	return int(math.Ceil(g.cfg.Partitions[partition-1]*float64(g.alg.Limit()) - 1e-6))
}

// below reports whether a partition has less in flight than it is guaranteed.
func (g *Gate[W]) below(partition int) bool {
	return partition > 0 && partition < len(g.used) && g.used[partition] < g.guarantee(partition)
}

// standingOf returns the rank of a request, or of a waiter, for a place in a full queue. A
// partition counts as below its guarantee if its waiters and the request would fit into it,
// or if they take no more than its share of the places.
func (g *Gate[W]) standingOf(partition int, p weir.Priority, arrives bool, n int) rank {
	most := g.guarantee(partition)
	if most == 0 {
		return rank{false, int64(p)}
	}
	units, places := g.used[partition], 0
	for i := range g.bands {
		if b := &g.bands[i]; b.partition == partition {
			units += b.units
			places += b.len
		}
	}
	if arrives {
		units += n
		places++
	}
	share := g.cfg.Partitions[partition-1] * float64(g.room())
	return rank{units <= most || float64(places) <= share, int64(p)}
}

// room returns how many may wait. With a Depth it moves with the limit and, with
// a MinWait, with how fast the work goes. Waiters keep their places when it falls.
func (g *Gate[W]) room() int {
	if g.cfg.Depth <= 0 {
		return g.cfg.Queue
	}
	most := g.alg.Limit()
	n := math.Ceil(g.cfg.Depth * float64(most))
	if g.cfg.MinWait > 0 {
		n = max(n, g.work.Within(g.cfg.MinWait, most))
	}
	if n < float64(g.cfg.Queue) {
		return max(int(n), 1)
	}
	return g.cfg.Queue
}

// taken reports whether all places in the queue are.
func (g *Gate[W]) taken() bool {
	return g.line.len >= g.cfg.Queue || g.cfg.Depth > 0 && g.line.len >= g.room()
}

// uniform reports whether r and all waiters have one rank and share one queue, so that no
// waiter can be evicted for r.
func (g *Gate[W]) uniform(r *Request) bool {
	return len(g.bands) == 1 && g.claim == 0 && g.bands[0].priority == r.Priority && len(g.bands[0].queues) == 1 &&
		len(g.cfg.Partitions) == 0
}

// victim returns the slot of the waiter to evict for an arrival when the queue is full, 0 if
// there is none: the newest in the longest queue of the lowest rank, if that rank is below
// the arrival's, or if the queue is fair and gets fairer by it.
func (g *Gate[W]) victim(r *Request) int {
	var low *band
	var least rank
	for i := range g.bands {
		b := &g.bands[i]
		if b.len == 0 {
			continue
		}
		at := g.standingOf(b.partition, b.priority, false, 0)
		if low == nil || least.over(at) || least == at && g.longest(b).len > g.longest(low).len {
			low, least = b, at
		}
	}
	mine := g.standingOf(g.partitionOf(r), r.Priority, true, r.N)
	if g.claim != 0 {
		c := &g.slots.all[g.claim].req
		if at := g.standingOf(g.partitionOf(c), c.Priority, false, 0); mine.over(at) && (low == nil || least.over(at)) {
			return g.claim
		}
	}
	switch {
	case low == nil:
		return 0
	case mine.over(least):
		return g.longest(low).tail
	case mine == least && len(low.queues) > 1 && g.lengthFor(r)+1 < g.longest(low).len:
		return g.longest(low).tail
	}
	return 0
}

// lengthFor returns how many wait in the queue that a request would join.
func (g *Gate[W]) lengthFor(r *Request) int {
	for i := range g.bands {
		if b := &g.bands[i]; b.priority == r.Priority && b.partition == g.partitionOf(r) {
			return b.queues[g.deal(b, r.Tenant)].len
		}
	}
	return 0
}

// evict takes a waiter's place. Next will tell it.
func (g *Gate[W]) evict(slot int) {
	if slot == 0 {
		return
	}
	w := &g.slots.all[slot]
	if w.place == claims {
		g.claim = 0
	} else {
		g.dequeue(slot)
	}
	g.slots.remove(&g.line, byArrival, slot)
	w.place = evicted
	g.slots.insert(&g.gone, byPlace, slot, g.gone.tail)
}
