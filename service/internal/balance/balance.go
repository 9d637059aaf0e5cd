// Package balance chooses one of several origins for each request: the one with less load, for
// its size, of two random ones (M. Mitzenmacher, The Power of Two Choices in Randomized Load
// Balancing, 2001). It observes how requests end, and avoids an origin that fails, without extra
// requests (passive health); results of health checks are taken as well. It is pure: it has no
// clock, and the caller serializes the calls.
//
// # Ejection
//
// An origin is ejected, for a second at first, for one of these reasons:
//
//   - [unreachableRow] failures in a row to connect.
//   - Silence: others have answered since, and it has answered none of [silentRow] requests, each of which has waited for
//     [silence], or for twice the longest that answers have taken lately. Or it has answered
//     nothing since a request was sent that is not answered in time.
//   - [failureRow] failures of any kind in a row that last a second, while others have answered well. These can be
//     a consequence of load, which an ejection moves to the other origins. So they eject at most half of the
//     origins that are not out for another reason.
//   - [checkRow] health checks in a row that fail.
//
// After the time, one request tries the origin, whatever its load is. Each failure doubles the time, up to
// [maxEjection]. An answer ends the ejection, and the origin gets its
// full share within [slowStart]. With health checks, the first one that succeeds lets a request try
// the origin at once, and none tries it before that if a check has ejected it.
//
// If all origins are out, requests go to all that are not held. A single origin is never ejected.
//
// # Retry-After
//
// An origin that answers 503 with Retry-After to all requests, at least [holdRow] of them
// and for [holdSpan], is held for as long as it says, up to [MaxHold]. Meanwhile a request
// each second tries it. Any other answer ends the hold. So a 503 that concerns one URL, or
// an origin that rejects a part of its requests, causes none. If the origin does so again when a hold ends, the next
// one begins at once.
package balance

import (
	"math"
	"time"

	"github.com/weir-go/weir"
)

const (
	unreachableRow = 3
	failureRow     = 5
	failureSpan    = time.Second
	silentRow      = 3
	silence        = time.Second
	checkRow       = 2

	minEjection = time.Second
	maxEjection = 10 * time.Second
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
	Failed                    // 500, 502, 503 or 504, a connection that broke off, or an answer that is no HTTP
	Silent                    // there is no answer in time
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

// A Cause is the reason of an ejection.
type Cause uint8

const (
	NoCause     Cause = iota
	Failing           // failures with a connection
	Connections       // failures to connect
	NoAnswers         // others answer, and this origin does not
	Check             // the health check
)

// Causes is the number of Causes.
const Causes = Check + 1

func (c Cause) String() string {
	return [Causes]string{"", "failures", "connections", "silence", "check"}[c]
}

// A Ticket is a request's place at an origin.
type Ticket struct {
	Origin int
	trial  bool // the origin is out, and this request tries it
	at     time.Duration
	whole  time.Duration // when the origin had all of the request; weir.Never before that
}

// Trial reports whether the request tries an origin that is out.
func (t Ticket) Trial() bool { return t.trial }

// Sent returns the Ticket of a request that the origin has had as a whole since an instant, or has not yet, if that is weir.Never.
func (t Ticket) Sent(whole time.Duration) Ticket {
	t.whole = whole
	return t
}

// Sizes tell how large origins are, for the load that they can bear.
type Sizes interface {
	// Size returns the size of an origin, above zero.
	Size(origin int) float64
}

// A Set is a set of origins.
type Set struct {
	origins []origin
	out     int           // origins that are ejected or held
	longest time.Duration // duration of the slowest answer lately
	decayed time.Duration // when longest was halved
	silent  []int         // origins that were ejected since the last Changed
}

type origin struct {
	inflight int
	waiting  int
	out      State // In, Ejected or Held
	cause    Cause // of the ejection
	trial    time.Duration
	back     time.Duration // the start of slowStart
	starting bool
	checked  int // failed health checks in a row

	ejection time.Duration // the next one; 0 after slowStart
	failures row
	unheard  row           // requests since the last answer, each as a whole
	enough   time.Duration // when there were silentRow of them
	heard    time.Duration // the last answer; -1 before the first
	well     time.Duration // the last one that was no failure; -1 before the first
	busy     row           // answers 503 with Retry-After
	hold     time.Duration // the end of a hold
	mean     float64       // duration of answers, in nanoseconds; 0: not known
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
func New(n int) *Set {
	s := &Set{origins: make([]origin, n)}
	for i := range s.origins {
		s.origins[i].heard, s.origins[i].well = -1, -1
	}
	return s
}

// Pick chooses an origin for a request, by 64 random bits, and in proportion to sizes, unless they are nil. It does not
// choose avoid, unless that is -1, for a request that was there before: it goes to an origin that is in. If ok is true, Leave must
// follow. If ok is false, there is no such origin, or all are held, and Wait says for how long.
func (s *Set) Pick(now time.Duration, random uint64, avoid int, sizes Sizes) (t Ticket, ok bool) {
	n := uint64(len(s.origins))
	a := int(random % n)
	b := a
	if n > 1 {
		b = int((uint64(a) + 1 + (random>>32)%(n-1)) % n)
	}
	usableA, usableB := a != avoid && s.usable(now, a, avoid), b != avoid && s.usable(now, b, avoid)
	switch {
	case usableA && usableB && s.before(now, b, a, sizes), !usableA && usableB:
		a = b
	case usableA:
	default:
		if a = s.first(now, a, avoid); a < 0 {
			return t, false
		}
	}
	return s.enter(now, a), true
}

// before reports whether a request that may go to origins a and b goes to a: to one that it tries, or the one with less load.
func (s *Set) before(now time.Duration, a, b int, sizes Sizes) bool {
	if tries := s.origins[a].out != In; tries != (s.origins[b].out != In) {
		return tries
	}
	return s.load(now, a, sizes) < s.load(now, b, sizes)
}

// Take is Pick of an origin, if a request may go there and it is no trial.
func (s *Set) Take(now time.Duration, i int) (t Ticket, ok bool) {
	if !s.usable(now, i, i) {
		return t, false
	}
	return s.enter(now, i), true
}

func (s *Set) enter(now time.Duration, i int) Ticket {
	o := &s.origins[i]
	t := Ticket{Origin: i, trial: o.out != In && now >= o.trial, at: now, whole: now}
	if t.trial { // the next one, if there is no result
		o.trial = now + max(probeEvery, o.ejection)
		o.ejection = min(2*o.ejection, maxEjection)
	}
	o.inflight++
	o.waits(now)
	return t
}

// waits counts a request that the origin has as a whole.
func (o *origin) waits(now time.Duration) {
	if o.unheard.add(now); o.unheard.n == silentRow {
		o.enough = now
	}
}

// Sending notes that the client of a request still sends it, so that the origin does not count as
// silent for want of an answer to it. Sent may follow.
func (s *Set) Sending(i int) {
	o := &s.origins[i]
	o.unheard.n = max(o.unheard.n-1, 0)
}

// Sent notes that an origin has all of a request now.
func (s *Set) Sent(now time.Duration, i int) { s.origins[i].waits(now) }

// first returns the first usable origin from a random one on. If there is none, it returns
// the first ejected one, unless the request was at another origin already; -1 if there is none either.
func (s *Set) first(now time.Duration, random, avoid int) int {
	ejected := -1
	for i := range s.origins {
		i = (random + i) % len(s.origins)
		switch {
		case i == avoid:
		case s.usable(now, i, avoid):
			return i
		case ejected < 0 && avoid < 0 && s.origins[i].out == Ejected:
			ejected = i
		}
	}
	return ejected
}

// Await chooses the origin at which a request that has to wait is expected to be answered first: one that is not avoid, and
// is in, or any ejected one if none is. It counts the request as waiting there. If ok is true, Enter or GiveUp must follow.
func (s *Set) Await(now time.Duration, avoid int, sizes Sizes) (origin int, ok bool) {
	best, least := -1, math.Inf(1)
	for _, want := range [...]State{In, Ejected} {
		for i := range s.origins {
			o := &s.origins[i]
			if i == avoid || want == In && !s.usable(now, i, i) || o.out != want {
				continue
			}
			if cost := s.load(now, i, sizes) * max(o.mean, 1); cost < least {
				best, least = i, cost
			}
		}
		if best >= 0 {
			s.origins[best].waiting++
			return best, true
		}
	}
	return -1, false
}

// Enter ends the wait of a request that goes to its origin. Leave must follow.
func (s *Set) Enter(now time.Duration, i int) Ticket {
	s.origins[i].waiting--
	return s.enter(now, i)
}

// GiveUp ends the wait of a request that does not go to its origin.
func (s *Set) GiveUp(i int) { s.origins[i].waiting-- }

// usable reports whether a request may go to an origin; not to one that is out, if it has to avoid another one. It
// ejects one that is silent.
func (s *Set) usable(now time.Duration, i, avoid int) bool {
	o := &s.origins[i]
	if o.out == Held && now >= o.hold {
		s.admit(now, o)
	}
	if o.out == In && o.unheard.n >= silentRow && now-o.enough >= max(silence, 2*s.slowestLately(now)) && s.othersAnswer(now, i, o.unheard.since) {
		s.eject(now, o, NoAnswers, false)
		s.silent = append(s.silent, i)
	}
	return o.out == In || avoid < 0 && now >= o.trial
}

// othersAnswer reports whether another origin than i, which is in, has answered since an instant from which on i has
// not, and is not silent: there is no request that it has not answered for half as long.
func (s *Set) othersAnswer(now time.Duration, i int, since time.Duration) bool {
	for j := range s.origins {
		if o := &s.origins[j]; j != i && o.out == In && o.heard > since && (o.unheard.n == 0 || now-o.unheard.since < (now-since)/2) {
			return true
		}
	}
	return false
}

// isSilent reports whether an origin answers nothing that has not answered a request in time, and others do. Answers that
// came while the request could still be under way are from before.
func (s *Set) isSilent(now time.Duration, t Ticket) bool {
	heard := s.origins[t.Origin].heard
	underWay := min(2*s.slowestLately(now), (now-t.at)/2)
	return heard <= t.at+underWay && s.othersAnswer(now, t.Origin, max(t.at, heard))
}

// slowestLately returns the longest duration of answers lately: it is halved every half minute.
func (s *Set) slowestLately(now time.Duration) time.Duration {
	const half = 30 * time.Second
	if n := (now - s.decayed) / half; n > 0 {
		s.longest >>= min(n, 62)
		s.decayed += n * half
	}
	return s.longest
}

// Changed returns the origins that were ejected as silent by other calls than Judge since the last call.
func (s *Set) Changed() (origins []int) {
	origins, s.silent = s.silent, nil
	return origins
}

// Out reports whether an origin is out, and another one is not. It ejects one that is silent.
func (s *Set) Out(now time.Duration, i int) bool {
	return !s.usable(now, i, i) && s.out < len(s.origins)
}

// load returns the load of an origin with one more request, in proportion to its size and its share.
func (s *Set) load(now time.Duration, i int, sizes Sizes) float64 {
	o := &s.origins[i]
	load := float64(o.inflight + o.waiting + 1)
	if sizes != nil {
		load /= sizes.Size(i)
	}
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

// Leave ends a request that has a ticket.
func (s *Set) Leave(t Ticket) { s.origins[t.Origin].inflight-- }

// Withdraw ends a request that has a ticket and was not sent.
func (s *Set) Withdraw(t Ticket) {
	o := &s.origins[t.Origin]
	o.inflight--
	o.unheard.n = max(o.unheard.n-1, 0)
	if t.trial {
		o.trial = t.at
	}
}

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
	silent := r == Silent && s.isSilent(now, t)
	if r == Answered || r == Failed {
		s.heard(now, o, t)
	}
	if r == Answered {
		o.failures, o.well = row{}, now
		s.answered(now, o)
		return
	}
	o.failures.add(now)
	switch {
	case o.busy.n >= holdRow && now-o.busy.since >= holdSpan:
		s.leave(o, Held)
		o.cause, o.hold, o.trial = NoCause, max(o.hold, now+min(after, MaxHold)), now+probeEvery
	case o.out == Held: // until its end, or another answer
		if r == Unreachable {
			s.eject(now, o, Connections, t.trial)
		}
	case silent:
		s.eject(now, o, NoAnswers, t.trial)
	case r == Unreachable && (o.out == Ejected || o.failures.n >= unreachableRow):
		s.eject(now, o, Connections, t.trial)
	case o.out == Ejected:
		s.eject(now, o, o.cause, t.trial)
	case o.failures.n >= failureRow && now-o.failures.since >= failureSpan && s.spares() && s.othersServe(o.failures.since):
		s.eject(now, o, Failing, t.trial)
	}
}

// heard notes an answer of any status. How long it took says nothing if the origin was out meanwhile, or has not yet
// had the whole request.
func (s *Set) heard(now time.Duration, o *origin, t Ticket) {
	o.unheard, o.heard = row{}, now
	if o.out != In || t.at < o.back || t.whole > now {
		return
	}
	took := now - t.whole
	s.longest = max(s.slowestLately(now), took)
	if o.mean == 0 {
		o.mean = float64(took)
	} else {
		o.mean += (float64(took) - o.mean) / 16
	}
}

// othersServe reports whether an origin that is in has answered well since an instant.
func (s *Set) othersServe(since time.Duration) bool {
	for i := range s.origins {
		if o := &s.origins[i]; o.out == In && o.well > since {
			return true
		}
	}
	return false
}

// spares reports whether one more origin may be ejected for what can be a consequence of load:
// at most half of the origins that are not out for another reason.
func (s *Set) spares() bool {
	others, failing := 0, 1
	for i := range s.origins {
		switch o := &s.origins[i]; {
		case o.out == Ejected && o.cause != Failing:
			others++
		case o.out != In:
			failing++
		}
	}
	return 2*failing <= len(s.origins)-others
}

// answered takes an origin in that has answered, unless its health check fails.
func (s *Set) answered(now time.Duration, o *origin) {
	if !o.failsCheck() {
		s.admit(now, o)
	}
}

// failsCheck reports whether the health check has ejected an origin, and still fails.
func (o *origin) failsCheck() bool { return o.cause == Check && o.checked >= checkRow }

// eject ejects an origin. If it is ejected already, a trial that has failed puts the next one off.
func (s *Set) eject(now time.Duration, o *origin, why Cause, trial bool) {
	switch ejected := o.out == Ejected; {
	case ejected && (!trial || o.failsCheck()):
		return // the request began before the ejection, or the health check decides
	case len(s.origins) == 1: // there is no other
		s.admit(now, o)
		return
	case ejected:
		o.cause, o.trial = why, max(o.trial, now+o.ejection/2)
		return
	case o.starting && now-o.back >= slowStart:
		o.ejection = 0 // it has worked since its last ejection
	}
	wait := max(o.ejection, minEjection)
	o.ejection = min(2*wait, maxEjection)
	s.leave(o, Ejected)
	o.cause, o.trial = why, now+wait
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
			if other := &s.origins[i]; !other.failsCheck() {
				other.trial = min(other.trial, now)
			}
		}
	}
	s.out--
	o.out, o.cause, o.back, o.starting = In, NoCause, now, true
	o.failures, o.unheard, o.hold = row{}, row{}, 0
}

// Checked reports the result of a health check of an origin. One that succeeds lets a request try the
// origin, if it is ejected.
func (s *Set) Checked(now time.Duration, i int, well bool) {
	o := &s.origins[i]
	switch {
	case well:
		o.checked = 0
		if o.out == Ejected {
			o.trial = min(o.trial, now)
		}
	case len(s.origins) == 1:
	default:
		if o.checked++; o.checked >= checkRow {
			s.leave(o, Ejected)
			o.cause, o.trial = Check, weir.Never
		}
	}
}

// Unchecked ends what health checks have found: none follows.
func (s *Set) Unchecked(now time.Duration) {
	for i := range s.origins {
		o := &s.origins[i]
		if o.checked = 0; o.cause == Check {
			o.cause, o.trial = Failing, now
		}
	}
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
	Cause    Cause         // of an ejection
	Until    time.Duration // the next trial of an Ejected origin, or the end of a hold; 0 if it is not known
}

// Origin returns the state of origin i.
func (s *Set) Origin(now time.Duration, i int) Origin {
	o := &s.origins[i]
	s.load(now, i, nil) // ends slowStart
	state := o.out
	switch {
	case state == Held && now >= o.hold:
		state = Starting
	case state == In && o.starting:
		state = Starting
	}
	until := time.Duration(0)
	switch {
	case state == Held:
		until = o.hold
	case state == Ejected && o.trial < weir.Never:
		until = o.trial
	}
	return Origin{o.inflight, state, o.cause, until}
}
