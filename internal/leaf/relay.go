package leaf

import (
	"math"
	"time"
)

// A Passed is the part of a key that the owner of the Keys passes on to other leaves: it is
// their upstream.
type Passed struct {
	Limit         // that they may use, all together
	Wants float64 // tokens a second that they would use if they had no limit
}

// A relayed is a part that is passed on, and what it is a part of. The rate and burst of the
// entry are the rest.
type relayed struct {
	assigned Limit
	passed   Passed
	fall     fall
}

// rest returns what is left of a limit.
func (r *relayed) rest(l Limit) Limit {
	if r == nil {
		return l
	}
	return Limit{max(l.Rate-r.passed.Rate, 0), max(l.Burst-r.passed.Burst, 0)}
}

// whole returns the rate of the assignment, or what is used of an earlier one.
func (e *entry) whole() float64 {
	if e.relay == nil {
		return e.rate
	}
	return max(e.relay.assigned.Rate, e.relay.passed.Rate)
}

// wants returns the tokens a second that are wanted.
func (e *entry) wants() float64 {
	if e.relay == nil {
		return e.demand.rate
	}
	return e.demand.rate + e.relay.passed.Wants
}

// Pass sets the part of a key that is passed on. The Keys decide by the rest, but report all of it
// to the upstream. The zero Passed ends that.
func (k *Keys) Pass(now time.Duration, key string, p Passed) {
	e := k.entries.find(key)
	if e == nil || e.relay == nil && p == (Passed{}) {
		return
	}
	e.refill(k.clock(now), k)
	if e.relay == nil {
		e.relay = &relayed{assigned: Limit{e.rate, e.burst}, fall: fall{at: k.now}}
	}
	had := e.whole()
	e.relay.passed = Passed{Limit{validOrZero(p.Rate), validOrZero(p.Burst)}, validOrZero(p.Wants)}
	rest := e.relay.rest(e.relay.assigned)
	if p == (Passed{}) {
		e.relay = nil
	}
	more := rest.Rate > e.rate
	if e.rate, e.burst = rest.Rate, rest.Burst; more {
		k.wake(e)
	}
	if e.wants() > e.reported*(1+hungryBand)+1 || e.whole() < had {
		k.rush(e)
	}
}

// A Whole says how much may be used of a key. The Limit has the part that is passed on. If the
// step is Ask or ByRule, it is zero: there is nothing to pass on.
type Whole struct {
	Limit
	Step   Step
	Wants  float64 // tokens a second that the callers of the Keys themselves want
	Shared Limit   // the limit of all leaves
	Leaves int     // of the upstream, that share it: >= 1
}

// Whole returns what may be used of a key, and measures what the callers of the Keys want.
func (k *Keys) Whole(now time.Duration, key string, p *Policy) Whole {
	now = k.clock(now)
	e := k.entry(now, key, p)
	w := Whole{Step: k.step(now, e, k.away(now))}
	rest := e.refill(now, k)
	k.sample(now, e)
	w.Wants = e.demand.rate
	w.Shared, w.Leaves = e.shared()
	switch {
	case w.Step == Ask, w.Step == ByRule:
		k.hurry(now, e)
	case e.unlimited:
		w.Limit = Limit{math.MaxFloat64, math.MaxFloat64}
	case e.relay == nil:
		w.Limit = rest
	case w.Step == Share:
		w.Limit = Limit{rest.Rate + e.relay.passed.Rate, rest.Burst + e.relay.passed.Burst}
	default:
		w.Limit = e.relay.assigned
	}
	return w
}

// Spend counts tokens that were used of the part of a key that is passed on.
func (k *Keys) Spend(key string, n int) {
	if e := k.entries.find(key); e != nil {
		e.used += n
	}
}
