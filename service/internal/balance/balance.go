// Package balance chooses one of several origins for each request: the one with fewer
// requests in flight of two random ones (M. Mitzenmacher, The Power of Two Choices in
// Randomized Load Balancing, 2001). It observes how requests end, and avoids an origin that
// fails, without extra requests (passive health). It is pure: it has no clock, and the
// caller serializes the calls.
//
// # Ejection
//
// An origin is ejected, for a second at first, after [unreachableRow] failures in a row to
// connect, or after [failureRow] failures of any kind in a row that last a second. Failures
// with a connection can be a consequence of load, which an ejection moves to the other
// origins. So these eject at most half of the origins. After the time, one request tries the
// origin. Its failure doubles the time, up to [maxEjection]. Its success ends the ejection,
// and the origin gets its full share within [slowStart].
//
// If all origins are ejected, requests go to all of them. A single origin is never ejected.
//
// # Retry-After
//
// An origin that answers 503 with Retry-After to all requests, at least [holdRow] of them
// and for [holdSpan], is held for as long as it says, up to [MaxHold]. Meanwhile a request
// each second tries it. Any other answer ends the hold. So a 503 that concerns one URL, or
// an origin that rejects a part of its requests, causes none.
package balance

import "time"

const (
	unreachableRow = 3
	failureRow     = 5
	failureSpan    = time.Second

	minEjection = time.Second
	maxEjection = 30 * time.Second
	slowStart   = 10 * time.Second
	slowest     = 0.1 // share of an origin's load at the beginning of slowStart

	holdRow    = 5
	holdSpan   = time.Second
	probeEvery = time.Second // while an origin is held
	// MaxHold bounds how long an origin is held after the last answer with Retry-After.
	MaxHold = 30 * time.Second
)

// A Result is the end of a request, as far as it concerns the choice of origins.
type Result uint8

const (
	Unknown     Result = iota // the request was cancelled, or its client failed
	Answered                  // the origin has answered with another status than those of Failed
	Failed                    // 502, 503 or 504, or a connection that broke off, or no answer in time
	Unreachable               // there is no connection: refused, no address, no route, a failed handshake
)

// A State is the state of an origin.
type State uint8

const (
	In       State = iota
	Starting       // in again, with less than its full share
	Ejected
	Held
)

// States are all States.
var States = [...]State{In, Starting, Ejected, Held}

func (s State) String() string { return [...]string{"in", "starting", "ejected", "held"}[s] }

// A Ticket is a request's place at an origin.
type Ticket struct {
	Origin int
	trial  bool // the origin is out, and this request tries it
}

// A Set is a set of origins.
type Set struct {
	origins []origin
	out     int // origins that are ejected or held
}

type origin struct {
	inflight int
	out      State // In, Ejected or Held
	trial    time.Duration
	back     time.Duration // the start of slowStart
	starting bool

	ejection time.Duration // the last one; 0 after slowStart
	failures row
	busy     row           // answers 503 with Retry-After
	hold     time.Duration // the end of a hold
}

// A row counts events without another one between.
type row struct {
	n     int
	since time.Duration
}

func (r *row) add(now time.Duration) {
	if r.n == 0 {
		r.since = now
	}
	r.n++
}

// New returns a Set of n origins, n >= 1.
func New(n int) *Set { return &Set{origins: make([]origin, n)} }

// Pick chooses an origin for a request, by 64 random bits. It does not choose avoid, unless
// that is -1. If ok is true, Leave must follow. If ok is false, there is no origin but avoid,
// or all are held, and Wait says for how long.
func (s *Set) Pick(now time.Duration, random uint64, avoid int) (t Ticket, ok bool) {
	n := uint64(len(s.origins))
	a := int(random % n)
	b := a
	if n > 1 {
		b = int((uint64(a) + 1 + (random>>32)%(n-1)) % n)
	}
	usableA, usableB := a != avoid && s.usable(now, a), b != avoid && s.usable(now, b)
	switch {
	case usableA && usableB && s.load(now, b) < s.load(now, a), !usableA && usableB:
		a = b
	case usableA:
	default:
		if a = s.first(now, a, avoid); a < 0 {
			return t, false
		}
	}
	o := &s.origins[a]
	t = Ticket{Origin: a, trial: o.out != In && now >= o.trial}
	if t.trial { // the next one, if there is no result
		o.trial = now + max(probeEvery, o.ejection)
	}
	o.inflight++
	return t, true
}

// first returns the first usable origin from a random one on. If there is none, it returns
// the first ejected one, unless the request was at another origin already; -1 if there is none either.
func (s *Set) first(now time.Duration, random, avoid int) int {
	ejected := -1
	for i := range s.origins {
		i = (random + i) % len(s.origins)
		switch {
		case i == avoid:
		case s.usable(now, i):
			return i
		case ejected < 0 && avoid < 0 && s.origins[i].out == Ejected:
			ejected = i
		}
	}
	return ejected
}

// usable reports whether a request may go to an origin.
func (s *Set) usable(now time.Duration, i int) bool {
	o := &s.origins[i]
	if o.out == Held && now >= o.hold {
		s.admit(now, o)
	}
	return o.out == In || now >= o.trial
}

// load returns the load of an origin with one more request, in proportion to its share.
func (s *Set) load(now time.Duration, i int) float64 {
	o := &s.origins[i]
	load := float64(o.inflight + 1)
	if o.starting {
		up := now - o.back
		if up >= slowStart {
			o.starting, o.ejection = false, 0
		} else {
			load /= slowest + (1-slowest)*float64(max(up, 0))/float64(slowStart)
		}
	}
	return load
}

// Leave ends a request that Pick has chosen an origin for.
func (s *Set) Leave(t Ticket) { s.origins[t.Origin].inflight-- }

// Judge reports how a request has ended. If it was answered 503 with Retry-After, after is
// that time; otherwise it is 0.
func (s *Set) Judge(now time.Duration, t Ticket, r Result, after time.Duration) {
	o := &s.origins[t.Origin]
	switch {
	case r == Unknown:
		return
	case r == Failed && after > 0:
		o.busy.add(now)
	default:
		o.busy = row{}
	}
	if r == Answered {
		o.failures = row{}
		s.admit(now, o)
		return
	}
	o.failures.add(now)
	switch {
	case o.busy.n >= holdRow && now-o.busy.since >= holdSpan:
		s.leave(o, Held)
		o.hold, o.trial = max(o.hold, now+min(after, MaxHold)), now+probeEvery
	case o.out == Held: // until its end, or another answer
		if r == Unreachable {
			s.eject(now, o, t)
		}
	case o.out == Ejected, r == Unreachable && o.failures.n >= unreachableRow,
		o.failures.n >= failureRow && now-o.failures.since >= failureSpan:
		s.maybeEject(now, o, t, r)
	}
}

// maybeEject ejects an origin, unless it is the only one, or its failures can be a
// consequence of load, and half of the origins are out.
func (s *Set) maybeEject(now time.Duration, o *origin, t Ticket, r Result) {
	if o.out == In && (len(s.origins) == 1 || r != Unreachable && 2*(s.out+1) > len(s.origins)) {
		return
	}
	s.eject(now, o, t)
}

// eject ejects an origin. A trial that has failed doubles the time.
func (s *Set) eject(now time.Duration, o *origin, t Ticket) {
	if o.out == Ejected && !t.trial { // a request from before
		return
	}
	if o.starting && now-o.back >= slowStart {
		o.ejection = 0
	}
	if len(s.origins) == 1 {
		s.admit(now, o)
		return
	}
	o.ejection = min(max(2*o.ejection, minEjection), maxEjection)
	s.leave(o, Ejected)
	o.trial = now + o.ejection
}

// leave takes an origin out.
func (s *Set) leave(o *origin, why State) {
	if o.out == In {
		s.out++
	}
	o.out, o.starting = why, false
}

// admit takes an origin in again.
func (s *Set) admit(now time.Duration, o *origin) {
	if o.out == In {
		return
	}
	if s.out == len(s.origins) { // the others may work again, too
		for i := range s.origins {
			s.origins[i].trial = min(s.origins[i].trial, now)
		}
	}
	s.out--
	o.out, o.back, o.starting = In, now, true
	o.failures, o.busy, o.hold = row{}, row{}, 0
}

// Wait returns how long it takes until a request may go to an origin. It is 0 unless all are
// held.
func (s *Set) Wait(now time.Duration) time.Duration {
	wait := MaxHold
	for i := range s.origins {
		o := &s.origins[i]
		if o.out != Held {
			return 0
		}
		wait = min(wait, o.hold-now)
	}
	return max(wait, 0)
}

// An Origin is the state of one origin.
type Origin struct {
	Inflight int
	State    State
	Until    time.Duration // the next trial of an Ejected origin, or the end of a hold; otherwise 0
}

// Origin returns the state of origin i.
func (s *Set) Origin(now time.Duration, i int) Origin {
	o := &s.origins[i]
	s.load(now, i) // ends slowStart
	state := o.out
	switch {
	case state == Held && now >= o.hold:
		state = Starting
	case state == In && o.starting:
		state = Starting
	}
	until := time.Duration(0)
	switch state {
	case Ejected:
		until = o.trial
	case Held:
		until = o.hold
	}
	return Origin{o.inflight, state, until}
}
