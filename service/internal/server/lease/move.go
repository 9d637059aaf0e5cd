package lease

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A change puts other rules into force.
type change struct {
	rules   uint64                          // the ID of the rules
	terms   map[*Limits]*config.Concurrency // of the old and the new rules; nil if a rule grants no leases
	plan    func(key string) Plan           // returns the rules of a key
	publish func()                          // lets requests find the rules
}

// waiting returns the keys of the requests that wait.
func (g *Registry) waiting() (keys []string) {
	q := &g.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := range q.waiters {
		keys = append(keys, w.Key)
	}
	return keys
}

// change puts rules into force. A request that waits keeps the units of the rules up to the
// first one of its plan that it has no units of. There it waits, before all requests that
// first waited after it.
//
// No other request gets units meanwhile: a waiter needs the mutex of the queue for it, and a
// newcomer finds that its plan is outdated, or that requests wait.
func (g *Registry) change(c *change) {
	for _, h := range g.queue.change(c) {
		h.release(weir.Ignored, 0)
	}
}

// change returns the units that the requests no longer hold.
func (q *queue) change(c *change) (dropped []holding) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for l, terms := range c.terms {
		l.update(c.rules, terms)
	}
	all := slices.SortedFunc(maps.Keys(q.waiters), func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	for _, w := range all {
		w.plan = c.plan(w.Key)
		h := holding{SavedLease: SavedLease{N: w.N}}
		if w.parts, h.parts = w.plan.keep(w.parts); len(h.parts) > 0 {
			dropped = append(dropped, h)
		}
		q.follow(w)
	}
	q.rules = c.rules
	c.publish()
	return dropped
}

// published waits for the end of a change.
func (q *queue) published() {
	q.mu.Lock()
	defer q.mu.Unlock()
}

// keep moves parts into those of the first rules of a plan, as far as there are any, and the
// others.
func (p *Plan) keep(had []part) (kept, dropped []part) {
	for i := range p.under {
		u := &p.under[i]
		if u.Shadow || !u.move(had, &kept) {
			break
		}
	}
	for i := range had {
		if had[i].bucket != nil {
			dropped = append(dropped, part{had[i].bucket, had[i].permit.Move(), had[i].shadow})
		}
	}
	return kept, dropped
}

// move moves the part of an enforced rule, and reports whether there is one.
func (u *Under) move(from []part, to *[]part) bool {
	for i := range from {
		if b := from[i].bucket; b != nil && u.of(b) {
			*to = append(*to, part{b, from[i].permit.Move(), false})
			from[i].bucket = nil
			return true
		}
	}
	return false
}

// follow lets a waiter go on under its new plan. It stays in its line if it has units of all
// rules before that.
func (q *queue) follow(w *waiter) {
	under, next := w.plan.under, len(w.parts)
	if next < len(under) && !under[next].Shadow && under[next].of(w.bucket) {
		q.bound(w)
		return
	}
	old := w.bucket
	q.remove(w)
	old.limits.leave(old, 0)
	if len(under) == 0 {
		q.end(w, decider.ErrNoLeasing)
		return
	}
	q.advance(w, true)
}

// of reports whether u is a bucket.
func (u *Under) of(b *bucket) bool { return b.limits == u.Limits && b.name == u.Bucket }
