package limit

import (
	"math"
	"time"
)

// Slots are cut out of the wall clock, so that all limiters on one resource cut
// at the same time, without a message.
type slots struct {
	epoch time.Duration // of the algorithm's instant zero, since the Unix epoch
	k     int           // a slot lasts 2^k nanoseconds
	now   int64         // the number of the present slot
	first time.Duration // of the slot: its beginning, on the algorithm's clock
}

const (
	shortest = 30 // 2^30 ns: a second
	longest_ = 46

	enough = 24 // samples of a drain
)

func (s *slots) length() time.Duration { return time.Duration(1) << s.k }

// enter returns whether a new slot has begun.
func (s *slots) enter(now time.Duration, took time.Duration) bool {
	if s.k == 0 {
		s.k = shortest
	}
	for s.k < longest_ && s.length() < time.Duration(trips)*took {
		s.k += int(coarser)
	}
	for s.k > shortest && time.Duration(1)<<(s.k-int(coarser)) > time.Duration(2*trips)*took {
		s.k -= int(coarser)
	}
	wall := int64(now + s.epoch)
	n := wall>>s.k<<6 | int64(s.k)
	if n == s.now {
		return false
	}
	s.now = n
	s.first = now - time.Duration(wall&(1<<s.k-1))
	return true
}

// early reports whether the slot has just begun.
func (s *slots) early(now time.Duration) bool { return now-s.first < s.length()/8 }

// A kind of slot.
type kind uint8

const (
	free       kind = iota // who suspects a queue drains
	allDrain               // all drain
	doubtDrain             // who knows no baseline drains
	allRaise               // all raise
)

// kind is what all limiters do in this slot. Slots of all lengths begin
// together, so that all that is done in a long one is done in the first of the
// short ones in it.
func (s *slots) kind() kind {
	switch n := s.now >> 6; {
	case n%32 == 0:
		return allDrain
	case n%8 == 0:
		return doubtDrain
	case n%8 == 3 || n%8 == 6:
		return allRaise
	}
	return free
}

// SetEpoch says what the wall clock, since the Unix epoch, showed at the instant
// zero of the samples.
func (a *Auto) SetEpoch(d time.Duration) { a.slots.epoch = d }

// turn is the beginning of a slot.
func (a *Auto) turn(now time.Duration) Cause {
	was := a.Limit()
	cause := Kept
	switch {
	case a.trial == lower:
		cause = a.concludeDrain(now)
	case a.trial == raise && a.all:
		cause = a.concludeRaise(now)
	}
	a.all = false
	if a.calm0 && a.recent.n >= enough {
		a.before, a.beforeAt = a.recent, now
		a.unqueued(&a.before, false)
	}
	a.recent = window{}
	if now-a.beforeAt > 4*a.slots.length() {
		a.before = window{}
	}
	kind := a.slots.kind()
	a.calm0 = kind == free
	if a.starting && a.busy() && a.trial == none && a.binding < 0.5 && a.limit > 2*math.Exp(a.before.inflight()) {
		a.begun()
	}
	if a.starting || !a.slots.early(now) || a.episode.before > 0 {
		return cause
	}
	binding := a.binding > 0.5
	switch {
	case kind == allRaise && binding && a.Limit() < a.cfg.Max:
		a.untry(now)
		if a.ref.n == 0 {
			a.ref = a.before
		}
		cause = a.try(raise, a.limit*(1+max(a.stride(fine), fairRaise/math.Sqrt(a.limit))), now)
		a.all = true
	case kind == allDrain && (binding || a.suspects() || a.busy() && !a.proven), kind == free && a.again && a.before.n > 0, kind == doubtDrain && a.before.n > 0 && (a.again || unprovenAll > 0 && !a.proven && (binding || a.busy()) || doubtAll > 0 && a.suspects() && a.patient()):
		a.untry(now)
		n := a.limit
		if !binding && a.before.n > 0 {
			n = min(n, math.Exp(a.before.inflight()))
		}
		a.calm0 = false
		if n = a.clamp(n / 2); int(n) < a.Limit() {
			cause = a.try(lower, n, now)
			a.long = time.Duration(drainLong * float64(a.typical))
		}
		a.all, a.again = kind == allDrain, false
	}
	if a.Limit() == was {
		return Kept
	}
	return cause
}

// untry takes a trial back that another is to take the place of.
func (a *Auto) untry(now time.Duration) {
	if a.trial != none {
		a.limit = a.from
		a.believe(now)
	}
}

// busy reports whether there is enough in flight for a drain to show something.
func (a *Auto) busy() bool {
	return a.before.n >= enough && a.before.inflight() > math.Log(4)
}

// patient reports whether it is time for a drain on suspicion: after some that
// came to nothing, it waits.
func (a *Auto) patient() bool {
	a.quiet--
	return a.quiet < 0
}

// suspects reports whether work takes longer than it does without a queue.
func (a *Auto) suspects() bool {
	d, noise := a.above(&a.before)
	return a.before.n >= enough && a.baseN > 0 && d > max(crowded, suspect*noise)
}

// concludeRaise ends a raise that all made, at the end of the slot.
func (a *Auto) concludeRaise(now time.Duration) Cause {
	if a.ref.n < 3 || a.window.n < 3 {
		a.untry(now)
		return Idle
	}
	a.over = true
	c := a.judgeRaise(now)
	a.over = false
	if a.trial == raise && a.all {
		return a.unneeded(now)
	}
	return c
}

// drained counts a sample in a drain, and ends it after some time.
func (a *Auto) drained(now time.Duration) Cause {
	passed := now - a.since
	if passed >= a.slots.length()/2 || passed >= a.long && a.window.n >= enough {
		return a.concludeDrain(now)
	}
	return Kept
}

// concludeDrain asks what became of a drain. This is what tells a queue, which is
// shorter with less work, from a service that is slower, which is not faster
// with less.
func (a *Auto) concludeDrain(now time.Duration) Cause {
	w, from := &a.window, a.from
	a.limit = from
	ref := &a.before
	if w.n < 3 || ref.n < 3 || w.inflight()-ref.inflight() > -0.05 {
		a.believe(now)
		return Throughput
	}
	change := w.inflight() - ref.inflight()
	longer := w.log() - ref.log()
	e := longer / change
	switch {
	case e > queued:
		a.again = true
		a.quiet, a.vain = 0, 0
		a.unqueued(w, false)
		a.learnFrom(w)
		a.limit = min(from, a.clamp(max(math.Exp(ref.inflight()+longer)*(1+fairCut/math.Sqrt(from)), math.Exp(ref.inflight())/2)))
		a.rest, a.back = 1, 1
		a.ref, a.before = window{}, window{}
		a.believe(now)
		return a.bounded(Queue)
	case a.all || doubtProves > 0 && !a.proven:
		seen := *w
		if e < slower && pool > 0 {
			b := *ref
			b.merge(window{}, int(pool*float64(w.n)))
			seen.merge(b, math.MaxInt)
		}
		a.unqueued(&seen, e < slower)
		a.known, a.proven = true, true
		a.quiet, a.vain = 0, 0
		a.learnFrom(w)
	default:
		a.vain = min(a.vain+1, 4)
		a.quiet = 1<<a.vain - 1
	}
	a.believe(now)
	return Throughput
}

// learnFrom takes from a drain how long healthy work lasts.
func (a *Auto) learnFrom(w *window) { a.healthy = w.most() }
