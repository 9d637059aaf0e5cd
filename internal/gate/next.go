package gate

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/servicetime"
	"github.com/weir-go/weir/limit"
)

// Next takes the next waiter with an answer out of the queue, if there is one: first the
// evicted, then the overdue, even if there is room now, then waiters that may start. After
// Close it takes all, in order of arrival.
func (g *Gate[W]) Next(now time.Duration) (a Answer[W], ok bool) {
	now = g.advance(now)
	for hold, ok := g.holds.Ended(now); ok; hold, ok = g.holds.Ended(now) {
		g.release(hold.Units, hold.Partition)
		g.work.Freed(now, hold.Units, g.line.len > 0)
	}
	g.Expire(now)
	if g.Waiting() == 0 {
		return a, false
	}
	w, why := g.next(now)
	if w == nil {
		return a, false
	}
	a = Answer[W]{w.shell, why, now - w.since}
	switch why {
	case 0:
		g.charge(w)
		g.shortfall.Served()
		g.stats.Admitted++
		g.stats.Waited += a.Waited
		g.release(-w.req.N, w.req.Partition)
	case weir.QueueFull:
		g.stats.Evicted++
	case weir.Overdue:
		g.stats.Overdue++
	case weir.TooLate:
		g.shortfall.Unserved()
		g.stats.TooLate++
	case weir.OverLimit:
		g.stats.OverLimit++
	case weir.Closed:
		g.stats.Closed++
	}
	g.take(w)
	return a, true
}

// Expire lets the limit change with time, as Next does, and returns why it changed.
func (g *Gate[W]) Expire(now time.Duration) limit.Cause {
	if g.controller == nil {
		return limit.Kept
	}
	now = g.advance(now)
	cause := g.changed(g.controller.Expire(now))
	g.pauseWhileLowered(now)
	return cause
}

// next finds the waiter that Next answers, and why; nil if there is none.
func (g *Gate[W]) next(now time.Duration) (w *waiter[W], why weir.Reason) {
	most := g.alg.Limit()
	switch head := g.line.head; {
	case g.gone.len > 0:
		return g.gone.head, weir.QueueFull
	case g.closed:
		return head, weir.Closed
	case g.cfg.MaxWait > 0 && now-head.since >= g.cfg.MaxWait:
		return head, weir.Overdue
	}
	if w := g.sweep(now); w != nil {
		return w, weir.Overdue
	}
	free := most - g.stats.Inflight
	g.freed += max(free-g.seen, 0)
	g.seen = free
	first := g.first(now)
	room := free
	if claim := g.claim; claim != nil && (first == nil || !g.outranks(first, claim, now)) {
		n := claim.req.N
		if n <= free || n > most {
			return claim, g.verdict(claim, most, now)
		}
		if room = free - min(n, g.kept+g.freed-g.freed/2); room <= 0 {
			return nil, 0
		}
	}
	if first == nil {
		return nil, 0
	}
	if n := first.req.N; n > room && n <= most {
		if room == free && free > 0 {
			g.stake(first, free)
			return g.next(now) // the claim only goes to higher ranks: this comes to an end
		}
		return nil, 0
	}
	return first, g.verdict(first, most, now)
}

// verdict judges the first waiter: it fits, or never will.
func (g *Gate[W]) verdict(w *waiter[W], most int, now time.Duration) weir.Reason {
	at := g.leaves(&w.req, w.since)
	switch {
	case w.req.N > most:
		return weir.OverLimit
	case now >= at || g.leastLeft(&w.req) > at-now:
		return weir.TooLate
	case g.drops(w, now):
		return weir.Overdue
	}
	return 0
}

// stake gives the claim to a waiter. The last holder of the claim returns to the front of
// its queue; what was kept for it passes on.
func (g *Gate[W]) stake(w *waiter[W], free int) {
	if old := g.claim; old != nil {
		old.queue = g.deal(old.band, old.req.Tenant) // where the others of its tenant are now
		g.enqueue(old, true)
	} else {
		g.kept, g.freed = free, 0
	}
	g.dequeue(w)
	w.place = claims
	g.claim = w
}

// Deadline returns the instant at which Next is due, unless an event comes before: a
// waiter will be overdue, a hold will be over, or the limit will change. It may be too
// early; Next then moves it. It is false if there is none.
func (g *Gate[W]) Deadline() (at time.Duration, ok bool) {
	at = weir.Never
	if g.gone.len > 0 {
		at = g.now
	}
	if g.line.len > 0 {
		at = min(at, g.sweepAt)
		if g.cfg.MaxWait > 0 {
			at = min(at, servicetime.After(g.line.head.since, g.cfg.MaxWait))
		}
		if g.controller != nil {
			if end, ok := g.controller.Deadline(); ok {
				at = min(at, end)
			}
		}
	}
	at = min(at, g.holds.Next())
	if g.controller != nil {
		if end, ok := g.controller.Tick(); ok {
			at = min(at, end)
		}
	}
	return at, at < weir.Never
}
