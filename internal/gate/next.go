package gate

import (
	"time"

	"github.com/weir-go/weir"
)

// Next takes the next waiter with an answer out of the queue, if there is one: first the
// evicted, then the overdue, even if there is room now, then waiters that may start.
func (g *Gate[W]) Next(now time.Duration) (a Answer[W], ok bool) {
	now = g.advance(now)
	g.unhold(now)
	if g.timed != nil {
		g.timed.Expire(now)
		g.pauseWhileLowered(now)
	}
	if g.Waiting() == 0 {
		return a, false
	}
	slot, why := g.next(now)
	if slot == 0 {
		return a, false
	}
	w := &g.slots.all[slot]
	a = Answer[W]{w.waiter, why, now - w.since}
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
	}
	g.take(slot)
	return a, true
}

// next finds the waiter that Next answers, and why; slot 0 if there is none.
func (g *Gate[W]) next(now time.Duration) (slot int, why weir.Reason) {
	most := g.alg.Limit()
	if g.gone.len > 0 {
		return g.gone.head, weir.QueueFull
	}
	if head := g.line.head; g.cfg.MaxWait > 0 && now-g.slots.all[head].since >= g.cfg.MaxWait {
		return head, weir.Overdue
	}
	if slot := g.sweep(now); slot != 0 {
		return slot, weir.Overdue
	}
	free := most - g.stats.Inflight
	g.freed += max(free-g.seen, 0)
	g.seen = free
	first := g.first(now)
	room := free
	if claim := g.claim; claim != 0 && (first == 0 || !g.outranks(first, claim, now)) {
		n := g.slots.all[claim].req.N
		if n <= free || n > most {
			return claim, g.verdict(claim, most, now)
		}
		if room = free - min(n, g.kept+g.freed-g.freed/2); room <= 0 {
			return 0, 0
		}
	}
	if first == 0 {
		return 0, 0
	}
	n := g.slots.all[first].req.N
	if n > room && n <= most {
		if room == free && free > 0 {
			g.stake(first, free)
			return g.next(now) // the claim only goes to higher ranks: this comes to an end
		}
		return 0, 0
	}
	return first, g.verdict(first, most, now)
}

// verdict judges the first waiter: it fits, or never will.
func (g *Gate[W]) verdict(slot, most int, now time.Duration) weir.Reason {
	w := &g.slots.all[slot]
	switch {
	case w.req.N > most:
		return weir.OverLimit
	case g.late(w, now):
		return weir.TooLate
	case g.drops(w, now):
		return weir.Overdue
	}
	return 0
}

// stake gives the claim to a waiter. The last holder of the claim returns to the front of
// its queue; what was kept for it passes on.
func (g *Gate[W]) stake(slot, free int) {
	if old := g.claim; old != 0 {
		w := &g.slots.all[old]
		w.queue = g.deal(&g.bands[w.band], w.req.Tenant) // where the others of its tenant are now
		g.enqueue(old, true)
	} else {
		g.kept, g.freed = free, 0
	}
	g.dequeue(slot)
	g.slots.all[slot].place = claims
	g.claim = slot
}

// Deadline returns the instant at which Next is due, unless an event comes before: a
// waiter will be overdue, a hold will be over, or the limit will change. It may be too
// early; Next then moves it. It is false if there is none.
func (g *Gate[W]) Deadline() (at time.Duration, ok bool) {
	at = never
	if g.gone.len > 0 {
		at = g.now
	}
	if g.line.len > 0 {
		at = min(at, g.sweepAt)
		if g.cfg.MaxWait > 0 {
			at = min(at, plus(g.slots.all[g.line.head].since, g.cfg.MaxWait))
		}
		if g.timed != nil {
			if end, ok := g.timed.Deadline(); ok {
				at = min(at, end)
			}
		}
	}
	if g.holds.Len() > 0 {
		at = min(at, g.holds.Min().until)
	}
	return at, at < never
}

// take removes a waiter from wherever it is.
func (g *Gate[W]) take(slot int) {
	switch g.slots.all[slot].place {
	case queued:
		g.dequeue(slot)
	case claims:
		g.claim = 0
	case evicted:
		g.slots.remove(&g.gone, byPlace, slot)
		g.slots.drop(slot)
		return
	}
	g.slots.remove(&g.line, byArrival, slot)
	g.slots.drop(slot)
}

// Dismiss takes the next waiter out of the queue, in order of arrival, because
// the queue is closed. Those evicted come first, with their own reason.
func (g *Gate[W]) Dismiss(now time.Duration) (a Answer[W], ok bool) {
	now = g.advance(now)
	slot, why := g.gone.head, weir.QueueFull
	if slot == 0 {
		slot, why = g.line.head, weir.Closed
	}
	if slot == 0 {
		return a, false
	}
	w := &g.slots.all[slot]
	a = Answer[W]{w.waiter, why, now - w.since}
	if why == weir.Closed {
		g.stats.Closed++
	} else {
		g.stats.Evicted++
	}
	g.take(slot)
	return a, true
}

// Refused counts a request that found the gate closed.
func (g *Gate[W]) Refused() { g.stats.Closed++ }
