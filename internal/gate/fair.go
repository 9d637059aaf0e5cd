package gate

import (
	"time"

	"github.com/weir-go/weir/internal/codel"
)

// A band has the waiters of one class: one queue, or several between which it is fair.
//
// Fairness is start-time fair queueing (Goyal, Vin and Cheng, 1996): a queue's start is the
// virtual time at which its next request may begin. The queue with the least start goes
// first; virtual time is the start of the last request that went. A queue that was empty
// starts at virtual time, so no tenant saves up.
type band[W any] struct {
	class
	len     int // waiters
	units   int // of theirs
	virtual float64
	queues  []queue[W]
	active  []int // the queues that are not empty, in no order
}

type queue[W any] struct {
	list[W]
	units int
	owner uint64        // the tenant that was first in it
	start float64       // in virtual time
	busy  time.Duration // since then it has not been empty, except after a sweep
	swept time.Duration // when one last was
	law   codel.Law
	surge codel.Surge
	at    int // index in active
}

// bandOf returns the band of a request, which it makes if need be.
func (g *Gate[W]) bandOf(r *Request) *band[W] {
	if b := g.findBand(r); b != nil {
		return b
	}
	b := &band[W]{class: g.classOf(r), queues: make([]queue[W], max(g.cfg.FairQueues, 1))}
	for i := range b.queues {
		b.queues[i].law = codel.New(codel.Config{
			Target: g.cfg.Target, Interval: g.cfg.Interval, KeepRate: g.cfg.Discipline == CoDel2012,
		})
		b.queues[i].swept = -1 << 62
	}
	g.bands = append(g.bands, b)
	return b
}

// findBand returns the band of a request, nil if there is none yet.
func (g *Gate[W]) findBand(r *Request) *band[W] {
	c := g.classOf(r)
	for _, b := range g.bands {
		if b.class == c {
			return b
		}
	}
	return nil
}

// hand is the number of queues among which a tenant chooses.
const hand = 6

// deal returns the queue in which a tenant is to wait.
func (g *Gate[W]) deal(b *band[W], tenant uint64) int {
	n := len(b.queues)
	if n == 1 {
		return 0
	}
	var dealt [hand]int // sorted
	h := mix(tenant)
	best := -1
	for i := range min(hand, n) {
		card := int(h % uint64(n-i)) // of the rest
		h /= uint64(n - i)
		at := 0
		for ; at < i && dealt[at] <= card; at++ {
			card++
		}
		copy(dealt[at+1:i+1], dealt[at:i])
		dealt[at] = card
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
func (g *Gate[W]) enqueue(w *waiter[W], atFront bool) {
	b := w.band
	q := &b.queues[w.queue]
	if q.len == 0 {
		q.at = len(b.active)
		b.active = append(b.active, w.queue)
		q.owner = w.req.Tenant
		q.start = max(q.start, b.virtual)
		if g.now-q.swept >= g.cfg.Interval {
			q.busy, q.surge = g.now, codel.Surge{}
		}
	}
	after := q.tail
	if atFront {
		after = nil
	}
	q.insert(byPlace, w, after)
	w.place = queued
	q.units += w.req.N
	b.units += w.req.N
	b.len++
	g.sweepAt = min(g.sweepAt, g.due(b, q))
}

// dequeue takes a waiter out of its queue.
func (g *Gate[W]) dequeue(w *waiter[W]) {
	b := w.band
	q := &b.queues[w.queue]
	q.remove(byPlace, w)
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
	b := w.band
	if len(b.queues) == 1 {
		return
	}
	q := &b.queues[w.queue]
	q.start = max(q.start, b.virtual)
	b.virtual = q.start
	q.start += float64(max(w.req.N, 1)) / float64(max(w.req.Weight, 1))
}

// first returns the queue of b that is first in an order.
func (b *band[W]) first(before func(p, q *queue[W]) bool) *queue[W] {
	best := &b.queues[b.active[0]]
	for _, i := range b.active[1:] {
		if q := &b.queues[i]; before(q, best) {
			best = q
		}
	}
	return best
}

// fairest returns the queue of b with the least start; of equals, the one with the oldest
// head.
func (b *band[W]) fairest() *queue[W] {
	return b.first(func(p, q *queue[W]) bool {
		return p.start < q.start || p.start == q.start && p.head.seq < q.head.seq
	})
}

// oldest returns the oldest waiter in b.
func (b *band[W]) oldest() *waiter[W] {
	return b.first(func(p, q *queue[W]) bool { return p.head.seq < q.head.seq }).head
}

// longest returns the longest queue of b; of equals, the one with the newest tail.
func (b *band[W]) longest() *queue[W] {
	return b.first(func(p, q *queue[W]) bool { return p.len > q.len || p.len == q.len && p.tail.seq > q.tail.seq })
}
