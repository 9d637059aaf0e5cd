package gate

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/codel"
)

// A band has the waiters of one priority in one partition: one queue, or several between
// which it is fair.
//
// Fairness is start-time fair queueing (Goyal, Vin and Cheng, 1996): a queue's start is the
// virtual time at which its next request may begin. The queue with the least start goes
// first; virtual time is the start of the last request that went. A queue that was empty
// starts at virtual time, so no tenant saves up.
type band struct {
	partition int
	priority  weir.Priority
	len       int // waiters
	units     int // of theirs
	virtual   float64
	queues    []queue
	active    []int // the queues that are not empty, in no order
}

type queue struct {
	list
	units int
	owner uint64        // the tenant that was first in it
	start float64       // in virtual time
	busy  time.Duration // since then it has not been empty, except after a sweep
	swept time.Duration // when one last was
	law   codel.Law
	surge codel.Surge
	at    int // index in active
}

// bandOf returns the index of a request's band, which it makes if need be.
func (g *Gate[W]) bandOf(r *Request) int {
	p := g.partitionOf(r)
	for i := range g.bands {
		if b := &g.bands[i]; b.priority == r.Priority && b.partition == p {
			return i
		}
	}
	b := band{partition: p, priority: r.Priority, queues: make([]queue, max(g.cfg.Fair.Queues, 1))}
	for i := range b.queues {
		b.queues[i].law = codel.New(g.cfg.CoDel)
		b.queues[i].swept = -1 << 62
	}
	g.bands = append(g.bands, b)
	return len(g.bands) - 1
}

// deal returns the queue in which a tenant is to wait.
func (g *Gate[W]) deal(b *band, tenant uint64) int {
	n := len(b.queues)
	if n == 1 {
		return 0
	}
	size := g.cfg.Fair.Hand
	if size <= 0 {
		size = DefaultHand
	}
	var hand [MaxHand]int // the cards dealt, sorted
	h := mix(tenant ^ g.cfg.Fair.Seed)
	best := -1
	for i := range min(size, MaxHand, n) {
		card := int(h % uint64(n-i)) // of the rest
		h /= uint64(n - i)
		at := 0
		for ; at < i && hand[at] <= card; at++ {
			card++
		}
		copy(hand[at+1:i+1], hand[at:i])
		hand[at] = card
		q := &b.queues[card]
		if q.len > 0 && q.owner == tenant {
			return card
		}
		if best < 0 || q.len < b.queues[best].len {
			best = card
		}
	}
	return best
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// enqueue puts a waiter at the new end of its queue, or at the old one.
func (g *Gate[W]) enqueue(slot int, atFront bool) {
	w := &g.slots.all[slot]
	b := &g.bands[w.band]
	q := &b.queues[w.queue]
	if q.len == 0 {
		q.at = len(b.active)
		b.active = append(b.active, w.queue)
		q.owner = w.req.Tenant
		q.start = max(q.start, b.virtual)
		if g.now-q.swept >= g.cfg.CoDel.WithDefaults().Interval {
			q.busy, q.surge = g.now, codel.Surge{}
		}
	}
	after := q.tail
	if atFront {
		after = 0
	}
	g.slots.insert(&q.list, byPlace, slot, after)
	w.place = queued
	q.units += w.req.N
	b.units += w.req.N
	b.len++
	g.sweepAt = min(g.sweepAt, g.due(b, q))
}

// dequeue takes a waiter out of its queue.
func (g *Gate[W]) dequeue(slot int) {
	w := &g.slots.all[slot]
	b := &g.bands[w.band]
	q := &b.queues[w.queue]
	g.slots.remove(&q.list, byPlace, slot)
	q.units -= w.req.N
	b.units -= w.req.N
	b.len--
	if q.len == 0 {
		q.law.Empty()
		last := len(b.active) - 1
		b.active[q.at] = b.active[last]
		b.queues[b.active[q.at]].at = q.at
		b.active = b.active[:last]
	}
}

// charge moves a queue's start by what one of its requests costs its tenant.
func (g *Gate[W]) charge(w *waiter[W]) {
	b := &g.bands[w.band]
	if len(b.queues) == 1 {
		return
	}
	q := &b.queues[w.queue]
	q.start = max(q.start, b.virtual)
	b.virtual = q.start
	q.start += float64(max(w.req.N, 1)) / float64(max(w.req.Weight, 1))
}

// fairest returns the queue of b with the least start; of equals, the one with the oldest
// head.
func (g *Gate[W]) fairest(b *band) *queue {
	best := &b.queues[b.active[0]]
	for _, i := range b.active[1:] {
		q := &b.queues[i]
		if q.start < best.start || q.start == best.start && g.seq(q.head) < g.seq(best.head) {
			best = q
		}
	}
	return best
}

// oldest returns the slot of the oldest waiter in b.
func (g *Gate[W]) oldest(b *band) int {
	slot := b.queues[b.active[0]].head
	for _, i := range b.active[1:] {
		if head := b.queues[i].head; g.seq(head) < g.seq(slot) {
			slot = head
		}
	}
	return slot
}

// longest returns the longest queue of b; of equals, the one with the newest tail.
func (g *Gate[W]) longest(b *band) *queue {
	best := &b.queues[b.active[0]]
	for _, i := range b.active[1:] {
		q := &b.queues[i]
		if q.len > best.len || q.len == best.len && g.seq(q.tail) > g.seq(best.tail) {
			best = q
		}
	}
	return best
}

func (g *Gate[W]) seq(slot int) uint64 { return g.slots.all[slot].seq }
