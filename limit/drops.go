package limit

import (
	"math"
	"time"

	"github.com/weir-go/weir"
)

// A round counts the outcomes of the work of one round trip.
type round struct{ ended, failed, slow int }

// failed reports whether an outcome speaks against what is in flight.
//
// Work that was refused further down does. Work that came too late does if it
// is in flight that it lost its time: if it took longer than healthy work
// does, and not most of its time passed in the queue. To lower the limit for
// what the queue did would only make the queue longer.
func (a *Auto) failed(s Sample) bool {
	took := s.End - s.Start
	switch s.Outcome {
	case weir.Dropped:
		return true
	case weir.TimedOut, weir.Late:
		return took > a.healthy && took > s.Waited && a.current(s)
	default:
		return false
	}
}

// tally counts an outcome, and returns why the limit is to fall, if it is:
// more than some by chance have failed.
func (a *Auto) tally(s Sample) Cause {
	if s.Start < a.recovery {
		return Kept
	}
	r := &a.round
	r.ended++
	if a.failed(s) {
		r.failed++
	} else if a.cfg.MaxHealthyLatency > 0 && s.End-s.Start > a.cfg.MaxHealthyLatency {
		r.slow++
	}
	bad := r.failed + r.slow
	many := bad >= dropsAtOnce && float64(bad) > drops*float64(r.ended)
	switch whole := r.ended >= max(a.Limit(), 10); {
	case many && (whole || 2*bad >= r.ended):
		if r.failed > 0 {
			return Dropped
		}
		return Slow
	case whole:
		*r = round{}
	}
	return Kept
}

// collapse lowers the limit by half of the share that failed, at most once for
// the work of one round trip.
func (a *Auto) collapse(now time.Duration, why Cause) Cause {
	share := float64(a.round.failed+a.round.slow) / float64(a.round.ended)
	a.round, a.recovery = round{}, now
	if a.window.n >= 3 && !a.starting { // while it grows freely, the queue is still to come
		change := math.Log(a.limit / a.fellFrom)
		excess := a.window.log() - a.fell.log() - (1-gain)*change
		if a.fell.n > 0 && excess > sure*a.window.noise(a.window.n, a.fell.n) {
			// Less work was not faster: it is the service that is slower.
			a.base, a.known = a.window.log(), true
			a.healthy = a.window.most()
		}
		a.fell, a.fellFrom = a.window, a.limit
	}
	a.limit = a.clamp(a.limit * (1 - share/2))
	a.starting, a.step, a.rest, a.back = false, fine, 1, 1
	if !a.known {
		a.cut = 0.5
	}
	a.ref = window{}
	a.believe(now)
	return a.bounded(why)
}
