package leaf

import (
	"time"

	"github.com/weir-go/weir/internal/usage"
)

// An entry is the state of one key. What a decision by an assignment reads and writes is in
// its first two cache lines.
type entry struct {
	// The bucket. Its rate and burst depend on the instant: see refill.
	tokens float64       // < 0 after a Charge
	at     time.Duration // of the last refill
	rate   float64       // of the assignment
	burst  float64
	last   time.Duration // of the last request
	used   int           // tokens since the last report

	term      uint32 // the assignment is valid under the lease of this term
	assigned  bool
	unlimited bool
	sharing   bool // the key is decided by its safe share until the upstream assigns a rate
	costly    bool // goal is set
	queued    bool // queue is not empty
	urgent    bool // it is in Keys.urgent
	contended bool
	ending    bool  // a Done is under way
	force     bool  // report it with the next exchange
	spread    uint8 // spreads the periodic reports of keys over time

	demand demand
	key    string
	policy *Policy

	index      int           // in Keys.list, -1 if it is not there
	goal       float64       // tokens that a single request costs, which is more than the burst
	goalAt     time.Duration // of the last request with the cost goal
	limit      Limit         // that all leaves share; zero if the upstream has not told it
	leaves     int
	reported   float64       // wants that the upstream knows
	reportedAt time.Duration // -1 if never
	retryAt    time.Duration // when to report again after an Error
	queue      []*Waiter
	ahead      float64 // tokens of all waiters that queued and have not given up
	served     float64 // tokens that waiters have got
	relay      *relayed

	size float64 // tokens that the bucket has room for
	came float64 // tokens refilled, also those for which it had no room
	log  usage.Log
}

// share returns the part of the limit that each leaf may use without an assignment. It is
// zero if the limit is not known.
func (e *entry) share() Limit {
	l, leaves := e.shared()
	return Limit{l.Rate / float64(leaves), l.Burst / float64(leaves)}
}

// shared returns the limit that all leaves share, zero if it is not known, and the number of them.
func (e *entry) shared() (l Limit, leaves int) {
	if l = e.limit; l == (Limit{}) {
		l = e.policy.Limit
	}
	return l, max(e.leaves, e.policy.Leaves, 1)
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
	if e.costly {
		if e.costly = e.at < e.goalAt+goalFor; e.costly {
			size = max(size, e.goal)
		}
	}
	if size > e.size {
		e.resize(size) // the bucket could not have more until now
	}
	if to > e.at {
		came := l.Rate * (to - e.at).Seconds()
		e.tokens, e.came, e.at = e.tokens+came, e.came+came, to
	}
	e.tokens = min(e.tokens, size)
	if size < e.size {
		e.resize(size)
	}
}

// drop takes away the tokens that a bucket has, until it is filled under another limit.
func (e *entry) drop() {
	e.tokens = min(e.tokens, 0)
	e.resize(0)
}

// groupsPerFill is how many groups of takes last for as long as a bucket takes to fill.
const groupsPerFill = 16

// instant returns the present of the bucket, for its log.
func (e *entry) instant() usage.Instant {
	return usage.Instant{At: e.at, Came: e.came, Size: e.size}
}

// resize changes how many tokens the bucket has room for. At this instant, it can have no more than
// the less.
func (e *entry) resize(size float64) {
	e.size = min(e.size, size)
	e.log.Take(e.instant(), 0, false, e.groups())
	e.size = size
}

func (e *entry) groups() usage.Groups {
	l := Limit{e.rate, e.burst}
	if !e.assigned {
		l = e.share()
	}
	return usage.GroupsFor(duration(l.Burst, l.Rate), groupsPerFill)
}

// took notes that n tokens were taken from the bucket, which is refilled.
func (e *entry) took(n float64) {
	e.log.Take(e.instant(), n, e.tokens+n >= e.size, e.groups())
}

// refill refills the bucket until now, and returns the current rate and burst.
func (e *entry) refill(now time.Duration, k *Keys) Limit {
	if l := (Limit{e.rate, e.burst}); e.assigned && e.term == k.term && now < k.lease.Until {
		e.fill(now, l)
		return l
	}
	return e.refillUnleased(now, k)
}

// refillUnleased refills the bucket of a key without a live assignment, in its phases:
// assigned until the lease ended; the lower one of assignment and safe share until other
// leaves' leases must have ended, too; the safe share from then on.
func (e *entry) refillUnleased(now time.Duration, k *Keys) Limit {
	share := e.relay.rest(e.share())
	if !e.assigned {
		e.fill(now, share)
		return share
	}
	own := Limit{e.rate, e.burst}
	end, free := k.lease.Until, max(k.lease.Free, k.lease.Until)
	if e.term != k.term {
		end, free = e.at, k.termAt // the lease of its assignment ended in between
	}
	if e.at < end {
		e.fill(end, own)
	}
	l := lowest(own, share)
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
	if n > l.Burst && (n >= e.goal || !e.costly) {
		e.goal, e.goalAt, e.costly = n, now, true
	}
	if e.tokens < n {
		return false
	}
	e.tokens -= n
	if n > 0 {
		e.took(n)
	}
	return true
}

// reachable reports whether the bucket can ever hold n tokens. If the bucket has a
// smaller part of the burst than a request costs, it fills up to that cost while such requests come.
func (e *entry) reachable(n float64, l Limit) bool {
	return n <= max(l.Burst, e.limitBurst(), 1)
}

// room bounds the debt of a Charge, in tokens.
func (e *entry) room(l Limit) float64 { return max(e.limitBurst(), l.Burst, 10*l.Rate) }
