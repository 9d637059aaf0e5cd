package gate

import (
	"math"
	"time"

	"github.com/weir-go/weir"
)

// A class is the requests of one partition and one priority whose routes are cheap, or of those
// whose routes are not.
type class struct {
	partition int
	priority  weir.Priority
	cheap     bool
}

// cheap is the cost below which the requests of a route go before others of their priority. All such
// routes together take less than this share of the work, whatever their rates.
const cheap = 1.0 / 4

func (g *Gate[W]) classOf(r *Request) class {
	return class{g.partitionOf(r), r.Priority, g.costs.Of(r.Route) < cheap}
}

// level returns the rank of the class as if its partition had no guarantee.
func (c class) level() rank { return rank{level: int64(c.priority), cheap: c.cheap} }

// A rank orders waiters: the higher goes first, and is evicted last.
type rank struct {
	below bool // its partition is below its guarantee
	level int64
	cheap bool
}

func (a rank) over(b rank) bool {
	switch {
	case a.below != b.below:
		return a.below
	case a.level != b.level:
		return a.level > b.level
	}
	return a.cheap && !b.cheap
}

// first returns the next waiter in the queues, nil if they are empty.
func (g *Gate[W]) first(now time.Duration) *waiter[W] {
	if len(g.bands) == 1 && g.bands[0].len > 0 {
		return g.front(g.bands[0], now)
	}
	var best *band[W]
	var bestAged, bestPlain rank
	for _, b := range g.bands {
		if b.len == 0 {
			continue
		}
		plain := g.rankOf(b.class)
		aged := plain
		if g.cfg.Aging > 0 {
			aged.level += g.age(b.oldest(), now)
		}
		if best == nil || plain.over(bestPlain) {
			bestPlain = plain
		}
		if best == nil || aged.over(bestAged) || aged == bestAged && b.oldest().seq < best.oldest().seq {
			best, bestAged = b, aged
		}
	}
	if best == nil {
		return nil
	}
	if bestPlain.over(g.rankOf(best.class)) {
		return best.oldest() // it is its age that puts it first
	}
	return g.front(best, now)
}

// front returns the next waiter in b.
func (g *Gate[W]) front(b *band[W], now time.Duration) *waiter[W] {
	q := b.fairest()
	if g.newestFirst(q, now) {
		return q.tail
	}
	return q.head
}

// outranks reports whether one waiter goes before another of another band.
func (g *Gate[W]) outranks(w, other *waiter[W], now time.Duration) bool {
	return len(g.bands) > 1 && g.aged(w, now).over(g.aged(other, now))
}

// rankOf returns the rank of a class.
func (g *Gate[W]) rankOf(c class) rank {
	r := c.level()
	r.below = g.below(c.partition)
	return r
}

// aged returns the rank of a waiter, raised by its age.
func (g *Gate[W]) aged(w *waiter[W], now time.Duration) rank {
	r := g.rankOf(w.band.class)
	r.level += g.age(w, now)
	return r
}

// age returns the levels that a waiter has risen.
func (g *Gate[W]) age(w *waiter[W], now time.Duration) int64 {
	if g.cfg.Aging <= 0 {
		return 0
	}
	return int64((now - w.since) / g.cfg.Aging)
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
	n := g.guarantee(partition)
	return n > 0 && g.used[partition] < n
}

// evictionRank returns the rank by which a full queue keeps or evicts the waiters of a class. A request that is to join
// them adds its units and one place. The partition of the class is below its guarantee if its units in flight, in the
// queue and of that request fit into the guarantee, or if its waiters have no more than its share of the places.
func (g *Gate[W]) evictionRank(c class, units, places int) rank {
	r, most := c.level(), g.guarantee(c.partition)
	if most == 0 {
		return r
	}
	units += g.used[c.partition]
	for _, b := range g.bands {
		if b.partition == c.partition {
			units += b.units
			places += b.len
		}
	}
	share := g.cfg.Partitions[c.partition-1] * float64(g.room())
	r.below = units <= most || float64(places) <= share
	return r
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

// taken reports whether all places in the queue are taken.
func (g *Gate[W]) taken() bool { return g.line.len >= g.room() }

// uniform reports whether r and all waiters have one rank and share one queue, so that no
// waiter can be evicted for r.
func (g *Gate[W]) uniform(r *Request) bool {
	return len(g.bands) == 1 && g.claim == nil && g.bands[0].class == g.classOf(r) && len(g.bands[0].queues) == 1 &&
		len(g.cfg.Partitions) == 0
}

// victim returns the waiter to evict for an arrival when the queue is full, nil if there is
// none: the newest in the longest queue of the lowest rank, if that rank is below the
// arrival's, or if the queue is fair and gets fairer by it.
func (g *Gate[W]) victim(r *Request) *waiter[W] {
	var low *band[W]
	var least rank
	for _, b := range g.bands {
		if b.len == 0 {
			continue
		}
		at := g.evictionRank(b.class, 0, 0)
		if low == nil || least.over(at) || least == at && b.longest().len > low.longest().len {
			low, least = b, at
		}
	}
	mine := g.evictionRank(g.classOf(r), r.N, 1)
	if g.claim != nil {
		if at := g.evictionRank(g.claim.band.class, 0, 0); mine.over(at) && (low == nil || least.over(at)) {
			return g.claim
		}
	}
	switch {
	case low == nil:
		return nil
	case mine.over(least), mine == least && len(low.queues) > 1 && g.lengthFor(r)+1 < low.longest().len:
		return low.longest().tail
	}
	return nil
}

// lengthFor returns how many wait in the queue that a request would join.
func (g *Gate[W]) lengthFor(r *Request) int {
	if b := g.findBand(r); b != nil {
		return b.queues[g.deal(b, r.Tenant)].len
	}
	return 0
}

// evict takes a waiter's place. Next will tell it.
func (g *Gate[W]) evict(w *waiter[W]) {
	if w.place == claims {
		g.claim = nil
	} else {
		g.dequeue(w)
	}
	g.line.remove(byArrival, w)
	w.place = evicted
	g.gone.insert(byPlace, w, g.gone.tail)
}
