package limit

import (
	"math"
	"math/bits"
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
	coarser  = 2 // 2^2: the ratio of lengths
	trips    = 8 // a slot lasts at least as many round trips

	enough = 24 // samples of a drain
)

func (s *slots) length() time.Duration { return time.Duration(1) << s.k }

// enter returns whether a new slot has begun.
func (s *slots) enter(now time.Duration, took time.Duration) bool {
	if s.k == 0 {
		s.k = shortest
	}
	for s.k < longest_ && s.length() < trips*took {
		s.k += coarser
	}
	for s.k > shortest && time.Duration(1)<<(s.k-coarser) > 2*trips*took {
		s.k -= coarser
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
	free     kind = iota // who suspects a queue drains
	allDrain             // all drain
	allRaise             // all raise
)

// kind is what all limiters do in this slot.
func (s *slots) kind() kind {
	x := bits.RotateLeft64(uint64(s.now)*0x9e3779b97f4a7c15, 20) % uint64(common)
	switch {
	case x == 0:
		return allDrain
	case x < uint64(raises)+1:
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
	if a.starting || !a.slots.early(now) || a.episode.before > 0 {
		return cause
	}
	kind := a.slots.kind()
	switch {
	case kind == allRaise && a.Limit() < a.cfg.Max:
		a.untry(now)
		cause = a.try(raise, a.limit*(1+max(a.stride(fine), 0.5/math.Sqrt(a.limit))), now)
		a.all = true
	case a.Limit() > a.cfg.Min && a.binding > 0.5 && (kind == allDrain || kind == free && a.again):
		a.untry(now)
		switch {
		case a.window.n >= enough:
			a.ref = a.window
		case now-a.refAt > a.slots.length():
			a.ref = window{}
		}
		cause = a.try(lower, a.limit/2, now)
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

// suspects reports whether work takes longer than it does without a queue.
func (a *Auto) suspects() bool {
	return !a.known || a.ref.log()-a.base > max(crowded, suspect*a.ref.noise(a.ref.n, a.ref.n))
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
	if passed >= a.slots.length()/2 || passed >= a.slots.length()/4 && a.window.n >= enough {
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
	if w.n < 3 || a.ref.n < 3 || w.inflight()-a.ref.inflight() > -0.05 {
		a.believe(now)
		return Throughput
	}
	change := w.inflight() - a.ref.inflight()
	noise := a.noise()
	longer := w.log() - a.ref.log()
	e := longer / change
	switch {
	case e > queued:
		a.again = true
		a.unqueued(w.log(), noise)
		a.learnFrom(w)
		a.limit = a.clamp(max(math.Exp(a.ref.inflight()+longer)*(1+0.5/math.Sqrt(from)), from/2))
		a.rest, a.back = 1, 1
		a.ref = window{}
		a.believe(now)
		return a.bounded(Queue)
	case a.all:
		if d := w.log() - a.base; a.known && math.Abs(d) < sure*noise {
			a.base += d / 4
		} else {
			a.base = w.log()
		}
		a.known = true
		a.learnFrom(w)
	}
	a.believe(now)
	return Throughput
}

// learnFrom takes from a drain how long healthy work lasts.
func (a *Auto) learnFrom(w *window) { a.healthy = w.most() }
