package gate

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/servicetime"
)

// patience returns how long the oldest waiter of q may wait before a surge: an Interval, or
// half of MaxWait. After a trial that did not fail it may use more of MaxWait.
func (g *Gate[W]) patience(q *queue[W]) time.Duration {
	most := g.cfg.MaxWait
	switch {
	case most <= 0:
		return g.cfg.Interval
	case q.surge.OnTrial():
		return min(g.cfg.Interval, most-most/4)
	}
	return min(g.cfg.Interval, most/2)
}

// newestFirst reports whether the newest of q goes first.
func (g *Gate[W]) newestFirst(q *queue[W], now time.Duration) bool {
	return g.cfg.Discipline == AdaptiveLIFO && q.surge.Rages(now, q.len)
}

// due returns when the discipline will refuse the head of q, unless an event comes before.
func (g *Gate[W]) due(b *band[W], q *queue[W]) time.Duration {
	if g.cfg.Discipline == FIFO || q.len == 0 {
		return weir.Never
	}
	since := q.head.since
	if g.cfg.Discipline.codel() {
		at, ok := q.law.Deadline(since, q.len-1)
		if !ok {
			return weir.Never
		}
		return max(at, g.pause.until)
	}
	if q.len == 1 || q.len*len(b.active) < b.len {
		return weir.Never // the last, or those of a tenant that did not make the queue
	}
	if q.surge.Rages(g.now, q.len) {
		if q.len == b.len && q.len > g.enough() {
			return since
		}
		return servicetime.After(since, g.cfg.Target)
	}
	return max(g.surgeAt(q, since), g.pause.until)
}

// enough returns how many waiters keep the limit used in a surge, in which another comes soon: as
// many units are free at once, by chance, as the square root of the units in flight.
func (g *Gate[W]) enough() int {
	return max(2, int(math.Ceil(1.5*math.Sqrt(float64(g.Limit())))))
}

// surgeAt returns when there will be a surge in q, with the oldest waiting since then.
func (g *Gate[W]) surgeAt(q *queue[W], since time.Duration) time.Duration {
	cfg := &g.cfg
	switch {
	case q.surge.Failed(g.now, q.len, cfg.Interval):
		return g.now
	case g.shortfall.Behind():
		return servicetime.After(q.busy, cfg.Interval)
	}
	return max(servicetime.After(q.busy, cfg.Interval), servicetime.After(since, max(g.patience(q), cfg.Target)))
}

// sweep returns a waiter that the discipline refuses in the middle of the queue, nil if
// there is none. There is none before sweepAt: only a waiter that joins makes that earlier.
func (g *Gate[W]) sweep(now time.Duration) *waiter[W] {
	if now < g.sweepAt {
		return nil
	}
	next := weir.Never
	for _, b := range g.bands {
		for _, j := range b.active {
			q := &b.queues[j]
			at := g.due(b, q)
			if at <= now {
				switch {
				case g.cfg.Discipline.codel():
					q.law.Stalled(now, now-q.head.since, q.len-1)
				case !q.surge.Active():
					q.surge.Begin(now, g.cfg.Interval)
					if at = g.due(b, q); at > now {
						next = min(next, at)
						continue
					}
				}
				q.swept = now
				return q.head
			}
			next = min(next, at)
		}
	}
	g.sweepAt = next
	return nil
}

// A pause is a time in which the discipline refuses no waiter, unless a surge has begun: a
// limit that lowers itself for a moment causes a queue that is no overload, and that
// becomes shorter for as long again.
type pause struct {
	lowered bool
	since   time.Duration // the limit was lowered; never if there was a queue before
	until   time.Duration
}

func (g *Gate[W]) pauseWhileLowered(now time.Duration) {
	p := &g.pause
	_, lowered := g.controller.Deadline()
	if lowered && !p.lowered {
		p.since = now
		if head := g.line.head; head != nil && now-head.since > g.cfg.Interval/2 {
			p.since = weir.Never
		}
	}
	if p.lowered = lowered; lowered && p.since < weir.Never {
		p.until = servicetime.After(now, now-p.since)
	}
}

// drops reports whether CoDel refuses a waiter that could start now. next asks once for each.
func (g *Gate[W]) drops(w *waiter[W], now time.Duration) bool {
	if !g.cfg.Discipline.codel() || now < g.pause.until {
		return false
	}
	q := &w.band.queues[w.queue]
	left := q.len
	if w.place == queued {
		left--
	}
	return q.law.Drop(now, now-w.since, left)
}
