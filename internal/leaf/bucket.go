package leaf

import "time"

// An entry is the state of one key.
type entry struct {
	key    string
	index  int // in Keys.list
	policy *Policy

	// The bucket. Its rate and burst depend on the instant: see phase.
	tokens float64       // < 0 after a Charge
	at     time.Duration // of the last refill
	goal   float64       // tokens that a single request costs, if that is more than the burst
	goalAt time.Duration // of the last such request

	// The assignment, which is valid under the lease of the same term.
	assigned  bool
	unlimited bool
	term      uint32
	rate      float64
	burst     float64
	limit     Limit // that all leaves share; zero if the upstream has not told it
	leaves    int
	sharing   bool // the key is decided by its safe share until the upstream assigns a rate

	demand demand

	// What the upstream knows.
	reported   float64       // wants
	reportedAt time.Duration // -1 if never
	used       int           // since the last report
	contended  bool
	ending     bool          // a Done is under way
	force      bool          // report it with the next exchange
	urgent     bool          // it is in Keys.urgent
	retryAt    time.Duration // when to report again after an Error
	last       time.Duration // of the last request
	spread     uint8         // spreads the periodic reports of keys over time

	queue  []*Waiter
	ahead  float64 // tokens of all waiters that queued and have not given up
	served float64 // tokens that waiters have got
}

// share returns the part of the limit that each leaf may use without an assignment. It is
// zero if the limit is not known.
func (e *entry) share() Limit {
	l, leaves := e.limit, max(e.leaves, e.policy.Leaves, 1)
	if l == (Limit{}) {
		l = e.policy.Limit
	}
	return Limit{l.Rate / float64(leaves), l.Burst / float64(leaves)}
}

// lowest returns the lower rate and burst.
func lowest(a, b Limit) Limit { return Limit{min(a.Rate, b.Rate), min(a.Burst, b.Burst)} }

// limitBurst returns the burst that all leaves share, or 0 if it is not known.
func (e *entry) limitBurst() float64 {
	if e.limit != (Limit{}) {
		return e.limit.Burst
	}
	return e.policy.Limit.Burst
}

// goalFor is how long a bucket keeps filling up to the cost of a request above its burst.
const goalFor = 30 * time.Second

// fill refills the bucket until an instant under one rate and burst.
func (e *entry) fill(to time.Duration, l Limit) {
	size := l.Burst
	if e.goal > size && e.at < e.goalAt+goalFor {
		size = e.goal
	}
	if to > e.at {
		e.tokens += l.Rate * (to - e.at).Seconds()
		e.at = to
	}
	e.tokens = min(e.tokens, size)
}

// refill refills the bucket until now, in the phases of its assignment: assigned until the
// lease ends; the lower one of assignment and safe share until other leaves' leases must
// have ended, too; the safe share from then on. It returns the current rate and burst.
func (e *entry) refill(now time.Duration, k *Keys) Limit {
	var own Limit // the assignment
	if e.assigned {
		own = Limit{e.rate, e.burst}
	}
	share := e.share()
	end, free := k.lease.Until, max(k.lease.Free, k.lease.Until)
	switch {
	case !e.assigned:
		e.fill(now, share)
		return share
	case e.term != k.term: // the lease of its assignment has ended
		end, free = e.at, k.termAt
	}
	l := own
	if e.at < end {
		e.fill(min(now, end), l)
	}
	if now < end {
		return l
	}
	l = lowest(own, share)
	if e.at < free {
		e.fill(min(now, free), l)
	}
	if now >= free {
		l = share
		e.fill(now, l)
	}
	return l
}

// take takes n tokens if the bucket, which is refilled, has them.
func (e *entry) take(now time.Duration, n float64, l Limit) bool {
	if n > l.Burst && (n >= e.goal || now >= e.goalAt+goalFor) {
		e.goal, e.goalAt = n, now
	}
	if e.tokens < n {
		return false
	}
	e.tokens -= n
	return true
}

// reachable reports whether the bucket can ever hold n tokens. A bucket whose part of the
// burst is smaller than a request fills up to its cost while such requests come.
func (e *entry) reachable(n float64, l Limit) bool {
	return n <= max(l.Burst, e.limitBurst(), 1)
}

// room bounds the debt of a Charge, in tokens.
func (e *entry) room(l Limit) float64 { return max(e.limitBurst(), l.Burst, 10*l.Rate) }
