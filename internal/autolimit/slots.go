package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/elasticity"
)

// Slots are pieces of the wall clock. All limiters in front of one resource cut
// it alike, so that they can do something at the same time without a message.
//
// A slot lasts 2^k ns, the longer the longer a unit is in flight: until dear work
// from before has ended, what is in flight is not what a trial admits. Slots of all
// lengths begin together: the first short slot in a long one begins with it.
// So limiters of slow work drain and raise at some of the instants at which
// limiters of quick work do.
type slots struct {
	epoch time.Duration // what the wall clock, since the Unix epoch, shows at instant zero
	k     int           // of the present slot
	id    int64         // of the present slot: its number, and k
	first time.Duration // when it began, on the algorithm's clock
}

const (
	shortest = 30 // 2^30 ns: a second
	longest  = 46 // 2^46 ns: a day
	kBits    = 6  // of an id

	slotTrips = 8 // round trips in a slot, at least
)

func (s *slots) length() time.Duration { return time.Duration(1) << s.k }

// enter reports whether a new slot has begun. A unit is in flight for so long.
func (s *slots) enter(now, took time.Duration) bool {
	wall := int64(now + s.epoch)
	if s.numbered(wall) == s.id {
		return false
	}
	for s.k < longest && s.length() < slotTrips*took {
		s.k++
	}
	for s.k > shortest && s.length()/2 > 2*slotTrips*took {
		s.k--
	}
	s.id = s.numbered(wall)
	s.first = now - time.Duration(wall&(1<<s.k-1))
	return true
}

func (s *slots) numbered(wall int64) int64 { return wall>>s.k<<kBits | int64(s.k) }

// age returns the time since the slot began. A trial that begins later than an eighth of its length
// is not at the same time as those of other limiters.
func (s *slots) age(now time.Duration) time.Duration { return now - s.first }

// A kind says what limiters do in a slot.
type kind uint8

const (
	free       kind = iota // nothing in common, unless the last drain met a queue
	drainAll               // all drain
	drainDoubt             // those drain that have a reason to
	raiseAll               // all limiters raise, if their limit is used
)

// kind returns what limiters do in this slot.
func (s *slots) kind() kind {
	n := s.id >> kBits
	switch {
	case n%32 == 0:
		return drainAll
	case n%s.doubts() == 0:
		return drainDoubt
	case n%4 == 3:
		return raiseAll
	}
	return free
}

// doubts returns in one of how many slots doubts are settled: every eight of the
// shortest slots, or every second slot if those are longer.
func (s *slots) doubts() int64 { return max(int64(8)>>(s.k-shortest), 2) }

// rare reports whether this is one of 2^v slots in which doubts are settled. A limiter
// that takes part in the rarer ones does so together with all others.
func (s *slots) rare(v int) bool { return (s.id>>kBits)/s.doubts()%(1<<v) == 0 }

// use says what a limiter has done with a slot.
type use uint8

const (
	disturbed use = iota // a trial of some limiters, or a pause
	untouched            // nothing in common: what ends in it is a reference
	together             // all limiters make the present trial
)

// commonTrials holds the state of the trials that all limiters make together.
type commonTrials struct {
	slots     slots
	use       use               // of this slot
	recent    elasticity.Window // what has ended in this slot
	before    elasticity.Window // what ended in the last untouched slot; empty if that is long ago
	beforeAt  time.Duration     // when that ended
	drainTime time.Duration     // how long a drain lasts at least
	again     bool              // the last drain has met a queue
	vain      int               // drains on suspicion that came to nothing, in a row
}

const (
	enough     = 24               // samples that a drain needs
	few        = 4                // units in flight of which a drain shows nothing
	headroom   = 0.5              // above what works, and the least common raise, in square roots of the limit
	queued     = 0.6              // elasticity above which a drain has met a queue: an average over the drain, so less than 1 - gain
	partly     = 0.5              // and above which it has met a part of one; above which a trim has shortened one
	unqueued   = gain             // and up to which there was none
	mostCut    = 1.414            // the factor by which a drain cuts the limit at most
	room       = 1.25             // times what is in flight: a limit that holds nothing back
	bearable   = 10 * time.Second // the longest slot in which an unused limit is drained: the callers' patience
	waits      = 0.42             // latency above the baseline, as a logarithm, that is a suspicion
	pooled     = 4                // samples before a drain for each in it that tell of the baseline
	drainTrips = 3                // round trips that a drain lasts at least
)

// turn is the beginning of a slot: it ends the trial of the last one, and begins
// that of this one.
func (a *Auto) turn(now time.Duration) Branch {
	was := a.Limit()
	b := a.endSlot(now)
	kind := a.slots.kind()
	if a.use = disturbed; kind == free {
		a.use = untouched
	}
	if a.starting && a.trial == none && a.inflightBefore() > math.Log(few) && a.binding < 0.5 && a.limit > 2*math.Exp(a.before.Inflight()) {
		a.begun() // the limit has room for twice of what is in flight
	}
	switch {
	case a.slots.age(now) >= a.slots.length()/8, a.episode.before > 0:
		return b
	case kind == raiseAll && a.joinsRaise(now):
		b = a.raiseAll(now)
	case a.joinsDrain(kind):
		if begun := a.drain(now, kind); begun != Stay {
			b = begun
		}
	}
	switch {
	case a.Limit() == was:
		return Stay
	case b == Stay: // a trial was taken back, and nothing took its place
		return TrialUnused
	}
	return b
}

// endSlot concludes the common trial of the slot that is over, and keeps what
// ended in it if there was none.
func (a *Auto) endSlot(now time.Duration) Branch {
	b := Stay
	switch {
	case a.trial == lower:
		b = a.endDrain(now)
	case a.trial == raise && a.use == together:
		b = a.endRaise(now)
	}
	if a.use == untouched && a.recent.N >= enough {
		a.before, a.beforeAt = a.recent, now
		a.baseline.Learn(&a.before, false)
	}
	a.recent = elasticity.Window{}
	if now-a.beforeAt > 4*a.slots.length() { // too little work for another drain
		a.before, a.again = elasticity.Window{}, false
	}
	return b
}

// inflightBefore is the logarithm of the units in flight in the last untouched slot; very little if
// too few samples tell.
func (a *Auto) inflightBefore() float64 {
	if a.before.N < enough {
		return math.Inf(-1)
	}
	return a.before.Inflight()
}

// joinsRaise reports whether to take part in a raise of all: not right after a raise that
// was refused, or a cut.
func (a *Auto) joinsRaise(now time.Duration) bool {
	return !a.starting && !a.again && a.trial != trim && a.binding > 0.5 && a.rest <= maxRest &&
		now >= a.raiseAt && now > a.recovery+a.slots.length() && a.limit < a.most
}

// raiseAll begins a raise that all make. Small limits are raised by more.
func (a *Auto) raiseAll(now time.Duration) Branch {
	a.untry(now)
	if a.ref.N == 0 {
		a.ref = a.before
	}
	a.evidence = a.resting(&a.ref)
	a.use = together
	return a.try(raise, a.limit*(1+max(a.stride(fine), headroom/math.Sqrt(a.limit))), now)
}

// endRaise ends a raise that all made, at the end of its slot.
func (a *Auto) endRaise(now time.Duration) Branch {
	if a.ref.N < 3 || a.window.N < 3 {
		a.untry(now)
		return TrialUnused
	}
	b := a.judgeRaise(now, true)
	if a.trial == raise && a.use == together {
		return a.unneeded(now)
	}
	return b
}

// untry takes a trial back that another takes the place of.
func (a *Auto) untry(now time.Duration) {
	if a.trial == trim {
		a.trimmed = true
	}
	if a.trial != none {
		a.believe(a.from, now)
	}
}
