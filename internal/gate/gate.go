// Package gate admits work up to a concurrency limit, keeps a bounded queue, and refuses the
// rest. It is a state machine without clock, lock or goroutine: events and instants go in,
// answers come out. Package inflight runs it in production, the simulator in virtual time.
//
//	arrival    Enter ──> Admit | Refuse | Wait, and then Join
//	departure  Leave, then Next until it has no more answers
//	caller     Cancel, then Next
//	time       at Deadline: Next
package gate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/codel"
	"github.com/weir-go/weir/internal/servicetime"
	"github.com/weir-go/weir/limit"
)

// A Request describes an arrival. Only N matters if it is admitted at once.
type Request struct {
	N         int           // units, >= 0
	NoWait    bool          // refuse it rather than let it wait
	Priority  weir.Priority // higher goes first, and is shed last
	Tenant    uint64        // a hash of the tenant; 0 is a tenant like any other
	Weight    int           // of its tenant, beside the others'. If zero or less, 1
	Partition int           // its number in Config.Partitions, from 1; any other = none
	Route     int           // its number, to servicetime.MaxRoutes; 0 is a route like any other
	Deadline  time.Duration // when its caller leaves, on the gate's clock. If zero, that is not known
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
	Reason weir.Reason   // zero: admitted, and Leave must follow
	Waited time.Duration // the sojourn
}

// Stats counts requests, whatever their units; the first four fields are a state. Every
// request is in exactly one of Admitted, OverLimit, QueueFull, Overdue, TooLate, Evicted,
// Cancelled, Closed and Waiting. An admitted request that has left is in exactly one of
// Success, Dropped and Ignored.
type Stats struct {
	Limit    int // units that may be in flight
	Inflight int // units in flight, those held and those lent included
	Held     int // units of abandoned work, that could still be going on
	Waiting  int // requests in the queue

	Admitted  uint64 // on arrival or after a wait
	OverLimit uint64 // refused: no room and no queue, or more units than the limit
	QueueFull uint64 // refused: no room in the queue either
	Overdue   uint64 // refused after too long in the queue
	TooLate   uint64 // refused: it would not have been done by its deadline, or before its caller leaves
	Evicted   uint64 // refused while in the queue: another had a better claim to the place
	Cancelled uint64 // left the queue of their own accord
	Closed    uint64 // refused: the limiter was closed

	Waited time.Duration // the sojourns of the Admitted, together

	Success, Dropped, Ignored uint64 // TimedOut and Late count as Dropped, Left as Ignored
	Abandoned                 uint64 // of those, the TimedOut and the Left
	Wasted                    uint64 // of those, what no caller waited for any more
}

// A Gate admits up to a limit and lets the rest wait, as Config says. A request begins only
// if it can end before its caller leaves: by its Deadline or, if it has none, by the age at
// which nearly all such callers have left (servicetime.Patience). Instants
// are durations since any fixed epoch, those in a Sample too; one that is
// earlier than a previous one is taken as that previous one. A Gate is not
// safe for concurrent use.
//
// Large and small: while a request waits, an arrival waits too, even if it fits. The first
// waiter that does not fit into the free units has the claim: it keeps those units, and every
// second unit that is freed from then on. So a request for n units waits for at most 2n
// units to be freed once it is first; the waiters behind it get the other half. A request
// for more units than the limit is refused, on arrival or when its turn comes. A limit that
// shrinks below what is in flight lets it finish.
//
// Abandoned work may go on after its caller has left. Its units stay in flight for as long
// as such work lasts (servicetime.Histogram). They are freed sooner if work becomes faster,
// and at once if no success has been seen yet.
type Gate[W any] struct {
	cfg        Config
	alg        limit.Algorithm
	controller limit.Controller // alg; nil if it is none
	now        time.Duration
	closed     bool
	line       list[W] // the waiters by arrival, without the evicted ones
	gone       list[W] // the evicted waiters that Next has not returned yet
	bands      []*band[W]
	unused     *waiter[W]    // to be used again
	seq        uint64        // of the last waiter that has joined
	sweepAt    time.Duration // before that, sweep finds no waiter
	pause      pause         // in the discipline

	claim *waiter[W] // the one that is first, but too large for now; nil if none
	kept  int        // units that were free when the claim was made
	freed int        // units freed since the claim was made
	seen  int        // free units at the last check

	used  []int // units in flight of each partition; the first is of those without
	holds servicetime.Holds

	work      servicetime.Estimator
	costs     servicetime.Costs
	callers   map[kind]*servicetime.Patience // that have left; of requests without a deadline
	shortfall codel.Shortfall
	stats     Stats // Limit, Held and Waiting are filled in on reading
	changes   Changes
}

// Changes counts the changes of a limit by cause; the last element is for unknown causes.
type Changes [limit.Drain + 2]uint64

// New returns a Gate under the limit of alg, which it owns from now on. The
// Config should be valid.
func New[W any](alg limit.Algorithm, cfg Config) *Gate[W] {
	g := &Gate[W]{now: math.MinInt64, sweepAt: weir.Never, pause: pause{until: math.MinInt64}}
	g.SetAlgorithm(alg)
	g.Configure(cfg)
	return g
}

// Full reports whether the queue has no room for ordinary work: that of
// priority zero or less, of no tenant, no partition and no route.
func (g *Gate[W]) Full() bool {
	return g.cfg.Queue > 0 && g.taken() && g.victim(&Request{}) == nil
}

// Enter is the arrival of a request. The Reason is why it is refused. It panics if
// r.N < 0.
func (g *Gate[W]) Enter(r Request) (Verdict, weir.Reason) {
	most := g.alg.Limit()
	if r.N >= 0 && r.N <= most-g.stats.Inflight && g.Waiting() == 0 && !g.closed {
		g.stats.Admitted++
		g.release(-r.N, r.Partition)
		return Admit, 0
	}
	return g.enter(&r, most)
}

func (g *Gate[W]) enter(r *Request, most int) (Verdict, weir.Reason) {
	switch {
	case r.N < 0:
		panic("inflight: a request for a negative number of units")
	case g.closed:
		g.stats.Closed++
		return Refuse, weir.Closed
	case r.N > most || r.NoWait || g.cfg.Queue <= 0:
		g.stats.OverLimit++
		return Refuse, weir.OverLimit
	case g.taken() && (g.uniform(r) || g.victim(r) == nil):
		g.stats.QueueFull++
		return Refuse, weir.QueueFull
	default:
		return Wait, 0
	}
}

// Join puts a request with the verdict Wait into the queue. The Answer will have w; the
// Ticket serves to cancel. A Reason means that the request does not join: TooLate if it is
// not expected to end before its caller leaves. Next follows.
func (g *Gate[W]) Join(now time.Duration, r Request, shell W) (Ticket[W], weir.Reason) {
	now = g.advance(now)
	g.work.Wanted(now)
	if g.hopeless(&r) {
		g.stats.TooLate++
		g.shortfall.Unserved()
		return Ticket[W]{}, weir.TooLate
	}
	if g.taken() {
		if victim := g.victim(&r); victim != nil {
			g.evict(victim)
		}
	}
	w := g.newWaiter()
	w.shell, w.req, w.since = shell, r, now
	g.line.insert(byArrival, w, g.line.tail)
	if g.taken() {
		g.shortfall.Unserved() // the next arrivals will be
	}
	g.sort(w)
	return Ticket[W]{w, w.seq}, 0
}

// sort puts a waiter into the queue for it.
func (g *Gate[W]) sort(w *waiter[W]) {
	w.band = g.bandOf(&w.req)
	w.queue = g.deal(w.band, w.req.Tenant)
	g.enqueue(w, false)
}

// Cancel takes a waiter out of the queue and reports whether it was still
// there. If not, its Answer has been given. Next follows.
func (g *Gate[W]) Cancel(now time.Duration, t Ticket[W]) bool {
	now = g.advance(now)
	w := t.waiter
	if w == nil || w.gate != g || w.seq != t.seq {
		return false
	}
	if p := g.patienceFor(&w.req); p != nil {
		p.Left(now, now-w.since)
	}
	g.take(w)
	g.shortfall.Unserved()
	g.stats.Cancelled++
	return true
}

// Close has all waiters and all later requests refused as Closed. Next follows.
func (g *Gate[W]) Close() { g.closed = true }

// SetAlgorithm puts the gate under another limit. Next follows.
func (g *Gate[W]) SetAlgorithm(alg limit.Algorithm) {
	if g.alg != nil && g.alg.Limit() != alg.Limit() {
		g.changed(limit.Set)
	}
	g.alg = alg
	g.controller, _ = alg.(limit.Controller)
	g.pause.lowered = false
}

// changed counts a change of the limit, and returns its cause.
func (g *Gate[W]) changed(cause limit.Cause) limit.Cause {
	if cause != limit.Kept {
		g.changes[min(int(cause), len(g.changes)-1)]++
	}
	return cause
}

// Configure changes the rules, for the waiters too. They keep their places, even beyond a
// smaller Queue. Next follows.
func (g *Gate[W]) Configure(cfg Config) {
	cfg.Discipline = cmp.Or(cfg.Discipline, FIFO)
	cfg.Target = cmp.Or(cfg.Target, codel.DefaultTarget)
	cfg.Interval = cmp.Or(cfg.Interval, codel.DefaultInterval)
	cfg.Partitions = slices.Clone(cfg.Partitions)
	old := g.cfg
	g.cfg = cfg
	for len(g.used) <= len(cfg.Partitions) {
		g.used = append(g.used, 0)
	}
	if old.Discipline == cfg.Discipline && old.Target == cfg.Target && old.Interval == cfg.Interval &&
		old.FairQueues == cfg.FairQueues && len(old.Partitions) == len(cfg.Partitions) {
		return
	}
	g.bands, g.claim, g.sweepAt = nil, nil, weir.Never
	for w := g.line.head; w != nil; w = w.links[byArrival].next {
		g.sort(w)
	}
}

// Config returns the rules.
func (g *Gate[W]) Config() Config { return g.cfg }

// Inflight returns the units in flight.
func (g *Gate[W]) Inflight() int { return g.stats.Inflight }

// Held returns the units of abandoned work among them.
func (g *Gate[W]) Held() int { return g.holds.Units() }

// Waiting returns the number of requests in the queue.
func (g *Gate[W]) Waiting() int { return g.line.len + g.gone.len }

// Limit returns the units that may be in flight.
func (g *Gate[W]) Limit() int { return g.alg.Limit() }

// Stats returns the state and the counts.
func (g *Gate[W]) Stats() Stats {
	s := g.stats
	s.Limit, s.Held, s.Waiting = g.alg.Limit(), g.holds.Units(), g.Waiting()
	return s
}

// Changes returns the counts of the changes of the limit.
func (g *Gate[W]) Changes() Changes { return g.changes }

// release takes n units of a partition out of flight, or in, if n < 0.
func (g *Gate[W]) release(n, partition int) {
	g.stats.Inflight -= n
	if partition > 0 && partition < len(g.used) {
		g.used[partition] = max(g.used[partition]-n, 0)
	}
}

// Usual returns a duration that successful work seldom exceeds: twice its 99th percentile;
// 0 if nothing is known.
func (g *Gate[W]) Usual() time.Duration { return g.work.Took.Usual() }

func (g *Gate[W]) advance(now time.Duration) time.Duration {
	g.now = max(g.now, now)
	return g.now
}
