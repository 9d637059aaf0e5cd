// Package gate is the admission machine: it lets work in up to a concurrency
// limit, keeps a bounded queue of those who wait, and refuses the rest. It is
// a plain state machine without clock, lock or goroutine: events go in, with
// the instant where time matters, and answers come out. Package inflight runs
// it in production; a simulator can run it in virtual time.
//
//	arrival    Enter ──> Admit | Refuse | Wait, and then Join
//	departure  Leave, then Next until it has no more answers
//	caller     Cancel, then Next
//	time       at Deadline: Next
package gate

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// Config bounds the queue.
type Config struct {
	Queue   int           // waiters (not units) at most. Zero or less: nobody waits
	MaxWait time.Duration // the longest sojourn. Zero or less: unbounded
}

// A Verdict is the answer to an arrival.
type Verdict uint8

const (
	Refuse Verdict = iota // not let in, with a reason
	Admit                 // in flight; Leave must follow
	Wait                  // there is room in the queue; Join must follow, before any other event
)

// An Answer tells one waiter how its wait ended.
type Answer[W any] struct {
	Waiter W
	Reason weir.Reason // zero: admitted, and Leave must follow
}

// Stats counts requests since the gate was made, whatever their units, except
// for the first three, which are a state. Every request is in exactly one of
// Admitted, OverLimit, QueueFull, Overdue, Cancelled and Waiting.
type Stats struct {
	Limit    int // units that may be in flight
	Inflight int // units in flight
	Waiting  int // requests in the queue

	Admitted  uint64 // on arrival or after a wait
	OverLimit uint64 // refused: no room and no queue, or more units than the limit
	QueueFull uint64 // refused: no room in the queue either
	Overdue   uint64 // refused after MaxWait in the queue
	Cancelled uint64 // left the queue of their own accord

	Success, Dropped, Ignored uint64 // of the admitted, those that have left, by outcome
}

// A Gate admits up to a limit and queues first in, first out. Instants are
// durations since any fixed epoch; one that is earlier than a previous one is
// taken as that previous one. A Gate is not safe for concurrent use.
//
// Nobody overtakes: while anyone waits, an arrival waits too, even if it is
// small enough to fit, and a large request at the head holds the others back
// rather than starve. A request for more units than the whole limit is
// refused, on arrival or, if the limit has shrunk meanwhile, at the head of
// the queue. A limit that shrinks below what is in flight lets it finish.
type Gate[W any] struct {
	cfg   Config
	alg   limit.Algorithm
	now   time.Duration
	queue fifo[W]
	stats Stats // Limit and Waiting are filled in on reading
}

// New returns a Gate under the limit of alg, which it owns from now on.
func New[W any](alg limit.Algorithm, cfg Config) *Gate[W] {
	return &Gate[W]{cfg: cfg, alg: alg, now: math.MinInt64}
}

// Enter is the arrival of a request for n units that may wait, or may not.
// The Reason is that of a refusal. It panics if n < 0.
func (g *Gate[W]) Enter(n int, mayWait bool) (Verdict, weir.Reason) {
	if n < 0 {
		panic("gate: a request for a negative number of units")
	}
	most := g.alg.Limit()
	switch {
	case g.queue.len == 0 && n <= most-g.stats.Inflight:
		g.admit(n)
		return Admit, 0
	case n > most || !mayWait || g.cfg.Queue <= 0:
		g.stats.OverLimit++
		return Refuse, weir.OverLimit
	case g.queue.len >= g.cfg.Queue:
		g.stats.QueueFull++
		return Refuse, weir.QueueFull
	default:
		return Wait, 0
	}
}

// Join puts a request for n units, whose verdict was Wait, at the end of the
// queue. The Answer will carry w; the Ticket serves to cancel.
func (g *Gate[W]) Join(now time.Duration, n int, w W) Ticket {
	return g.queue.push(waiter[W]{who: w, n: n, since: g.advance(now)})
}

// Cancel takes a waiter out of the queue and reports whether it was still
// there. If not, its Answer has been given.
func (g *Gate[W]) Cancel(t Ticket) bool {
	if !g.queue.remove(t) {
		return false
	}
	g.stats.Cancelled++
	return true
}

// Leave is the departure of n units, with what they taught, and returns why
// the limit moved, if it did. It panics if more leaves than has entered.
func (g *Gate[W]) Leave(s limit.Sample, n int) limit.Cause {
	g.Adjust(n, 0)
	switch s.Outcome {
	case weir.Success:
		g.stats.Success++
	case weir.Dropped:
		g.stats.Dropped++
	default:
		g.stats.Ignored++
	}
	return g.alg.Observe(s)
}

// Adjust changes what an admitted request holds from n units to m, which may
// exceed the limit. It panics if more leaves than has entered.
func (g *Gate[W]) Adjust(n, m int) {
	if n < 0 || m < 0 || n > g.stats.Inflight {
		panic("gate: more units leave than have entered")
	}
	if m > math.MaxInt-(g.stats.Inflight-n) {
		panic("gate: more units than can be counted")
	}
	g.stats.Inflight += m - n
}

// Next takes out of the queue the next waiter whose wait is over, if there is
// one. Whoever has waited for MaxWait is refused, even if there is room now.
func (g *Gate[W]) Next(now time.Duration) (a Answer[W], ok bool) {
	now = g.advance(now)
	head, ok := g.queue.head()
	if !ok {
		return a, false
	}
	a.Waiter = head.who
	most := g.alg.Limit()
	switch {
	case g.cfg.MaxWait > 0 && now-head.since >= g.cfg.MaxWait:
		g.stats.Overdue++
		a.Reason = weir.Overdue
	case head.n > most:
		g.stats.OverLimit++
		a.Reason = weir.OverLimit
	case head.n <= most-g.stats.Inflight:
		g.admit(head.n)
	default:
		return Answer[W]{}, false
	}
	g.queue.pop()
	return a, true
}

// Deadline returns the instant at which Next will refuse the head of the
// queue, unless something happens before. There is none if nobody waits, or if
// the wait is unbounded or ends beyond what a Duration can hold.
func (g *Gate[W]) Deadline() (at time.Duration, ok bool) {
	head, ok := g.queue.head()
	if !ok || g.cfg.MaxWait <= 0 {
		return 0, false
	}
	at = head.since + g.cfg.MaxWait
	return at, at > head.since // else it overflowed
}

// SetAlgorithm puts the gate under another limit. Next follows.
func (g *Gate[W]) SetAlgorithm(alg limit.Algorithm) { g.alg = alg }

// Configure changes the bounds of the queue. Those who wait keep their places,
// even beyond a smaller Queue; a new MaxWait counts for them too. Next
// follows.
func (g *Gate[W]) Configure(cfg Config) { g.cfg = cfg }

// Config returns the bounds of the queue.
func (g *Gate[W]) Config() Config { return g.cfg }

// Inflight returns the units in flight.
func (g *Gate[W]) Inflight() int { return g.stats.Inflight }

// Limit returns the units that may be in flight.
func (g *Gate[W]) Limit() int { return g.alg.Limit() }

// Stats returns the state and the counts.
func (g *Gate[W]) Stats() Stats {
	s := g.stats
	s.Limit = g.alg.Limit()
	s.Waiting = g.queue.len
	return s
}

func (g *Gate[W]) admit(n int) {
	g.stats.Inflight += n
	g.stats.Admitted++
}

func (g *Gate[W]) advance(now time.Duration) time.Duration {
	g.now = max(g.now, now)
	return g.now
}
