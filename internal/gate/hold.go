package gate

import (
	"time"

	"github.com/weir-go/weir/internal/heap"
)

// A hold keeps units of abandoned work in flight until the work has probably ended.
type hold struct {
	start     time.Duration // of the work
	age       time.Duration // of the work when it was abandoned
	until     time.Duration
	n         int
	partition int
}

// newHolds returns the holds of a gate, the first to end first.
func newHolds() *heap.Heap[hold] {
	return heap.New(func(a, b hold) bool { return a.until < b.until })
}

// Usual returns a duration that successful work seldom exceeds: twice its 99th percentile;
// 0 if nothing is known.
func (g *Gate[W]) Usual() time.Duration { return g.work.Took.Usual() }

// hold keeps the units of an abandoned request in flight, if its work could still be going
// on. Each hold has a unit at least, so their number is bounded.
func (g *Gate[W]) hold(start time.Duration, r Request) bool {
	age := g.now - start
	g.work.Took.AddAbandoned(age)
	until := plus(start, g.work.Took.Lasts(age))
	if r.N == 0 || until <= g.now {
		return false
	}
	if g.holds.Len() == 0 {
		g.review()
	}
	g.holds.Push(hold{start, age, until, r.N, r.Partition})
	g.stats.Held += r.N
	return true
}

// unhold ends the holds that are over.
func (g *Gate[W]) unhold(now time.Duration) {
	for g.stats.Held > 0 && g.holds.Min().until <= now {
		h := g.holds.Pop()
		g.stats.Held -= h.n
		g.release(h.n, h.partition)
		g.work.Freed(now, h.n, g.line.len > 0)
	}
}

const (
	reviewAfter = 16
	reviewShare = 1.0 / 16
)

// reviewSoon counts a success. The holds are reviewed after reviewAfter of them, or after
// reviewShare of the known samples.
func (g *Gate[W]) reviewSoon() {
	g.unreviewed++
	if known := g.work.Took.Known(); g.unreviewed >= reviewAfter || float32(g.unreviewed) >= known*reviewShare {
		g.review()
	}
}

// review shortens the holds if work has become faster by an eighth since the last time that
// it did.
func (g *Gate[W]) review() {
	g.unreviewed = 0
	p99 := g.work.Took.P99()
	if p99 >= g.reviewed-g.reviewed/8 {
		g.reviewed = max(g.reviewed, p99)
		if g.holds.Len() == 0 {
			g.reviewed = p99
		}
		return
	}
	g.reviewed = p99
	held := g.holds.Items()
	g.holds = newHolds()
	for _, h := range held {
		h.until = min(h.until, plus(h.start, g.work.Took.Lasts(h.age)))
		g.holds.Push(h)
	}
}
