package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/elasticity"
	"github.com/weir-go/weir/internal/outcome"
)

// Constants of the judgement on failures.
const (
	drops       = 0.1  // the share of failures beyond the background that is tolerated
	dropsAtOnce = 3    // failures in a round that may be chance, and no more
	untested    = 0.05 // the share of failures that is taken for background without a test
	doubtful    = 0.02 // the share that is never surprising
	lengthen    = 8    // lengths of a round that an uncertain one takes at most
	alarm       = 4    // standard errors that make failures a surprise

	blamed   = 1.5  // the elasticity of failures above which load causes them
	innocent = 0.5  // and below which it does not
	fading   = 2048 // rounds in which a tested background fades
	witness  = 5    // successes without which an episode has no verdict
)

// failures holds the counts and the state of the judgement on failures.
type failures struct {
	round      round            // outcomes since the last cut, of one round trip
	recovery   time.Duration    // when that was: work that started before is part of it
	unbiased   time.Duration    // work that ended before tells only of what ends fast
	blame      elasticity.Blame // of recent rounds
	background float64          // the share of failures that load does not cause, weighed
	lasts      time.Duration    // how long a failure takes that takes its time
	episode    episode
	lastGood   time.Duration // when the last success ended
	inRow      int           // failures since
}

// A round sums up the costs of the work of one round trip. A failure counts by the share of a
// success's time that it took.
type round struct {
	ended, squares float64 // sums of the costs, and of their squares
	failed, slow   float64
	blame          elasticity.Blame
}

func (r *round) bad() float64 { return r.failed + r.slow }

// An episode begins when failures cut the limit. It is an experiment with a
// lower limit, and ends when it is known whether that helped.
type episode struct {
	before  float64          // the limit before it; 0 = there is no episode
	typical time.Duration    // how long a success took before it
	good    int              // work that went well in it
	blame   elasticity.Blame // in it, and in the round before
	calm    float64          // the last limit without a surprise on the way back; 0 before
}

// failed reports whether an outcome speaks against what is in flight.
//
// Work that was refused further down does. Work that came too late does if it is in flight
// that it lost its time: if it took longer than work does that meets no queue there, and not
// most of its time passed in the queue in front. To lower the limit for what that queue did
// would only make it longer.
func (a *Auto) failed(s *Sample) bool {
	switch s.Outcome {
	case weir.Dropped:
		return true
	case outcome.Late:
		if s.took() <= a.baseline.Mean() {
			return false
		}
	case outcome.TimedOut: // and would have taken longer
	default:
		return false
	}
	return s.End-s.Start > s.Waited && a.current(s)
}

// weight returns by how much a failure counts: the share of a success's time
// that it took. A refusal that takes no time costs the resource next to nothing.
func (a *Auto) weight(s *Sample) float64 {
	switch {
	case a.typical > 0:
		return min(1, float64(s.took())/float64(a.typical))
	case s.Outcome == weir.Dropped:
		return 0
	}
	return 1
}

// tally counts an outcome, and moves the limit if failures say so.
func (a *Auto) tally(s *Sample) Branch {
	if s.Start < a.recovery || s.End < a.unbiased {
		return Stay
	}
	bad := a.count(s)
	r := &a.round
	whole := r.ended >= float64(max(a.Limit(), 10))
	switch {
	case a.unexplained() > 0 && (whole || 2*r.bad() >= r.ended):
		return a.collapse(s.End)
	case bad && a.episode.before > 0 && a.episode.good >= witness && a.episode.blame.AtMost() < innocent:
		return a.acquit(s.End)
	case !whole, r.bad() > (a.background+drops)*r.ended && r.ended < lengthen*float64(max(a.Limit(), 10)):
		return Stay // more failures than are tolerated may be chance: the round goes on
	}
	return a.calm(s.End)
}

// failuresBefore returns the failures in a row before a success, and the time since the success
// before them.
func (a *Auto) failuresBefore(s *Sample) (n int, since time.Duration) {
	if s.Outcome == weir.Success {
		n, since = a.inRow, s.End-a.lastGood
		a.inRow, a.lastGood = 0, s.End
	} else if a.failed(s) {
		a.inRow++
	}
	return n, since
}

// restart discards the measurements after a pause: of the work that began then, the
// quickest ends first, so that they would show too short a latency.
func (a *Auto) restart(now time.Duration) Branch {
	a.recent, a.before, a.again = elasticity.Window{}, elasticity.Window{}, false
	if a.use == untouched {
		a.use = disturbed
	}
	a.believe(a.from, now)
	return Resumed
}

// count counts an outcome, and reports whether it is a failure.
func (a *Auto) count(s *Sample) (bad bool) {
	r, took := &a.round, s.End-s.Start
	weight := 0.0 // of a success
	r.ended += s.cost()
	r.squares += s.cost() * s.cost()
	if bad = a.failed(s); bad {
		weight = a.weight(s)
		r.failed += weight * s.cost()
		if weight > 0.5 {
			a.lasts = max(took, a.lasts-a.lasts/16)
		}
	} else if a.healthy > 0 && took > a.healthy {
		r.slow += s.cost()
	}
	x := a.log(s.Inflight)
	a.blame.Add(s.Inflight, x, bad, weight, s.cost())
	r.blame.Add(s.Inflight, x, bad, weight, s.cost())
	if ep := &a.episode; ep.before > 0 {
		ep.blame.Add(s.Inflight, x, bad, weight, s.cost())
		if !bad {
			ep.good++
		}
	}
	return bad
}

// unexplained is how many more failures this round has than the background and chance explain; 0 if
// they are tolerated.
func (a *Auto) unexplained() float64 {
	r := &a.round
	share, n := r.bad()/r.ended, r.ended*r.ended/r.squares // as in elasticity.Window.Variance
	p := max(a.background, doubtful)
	if a.starting { // the background is not known yet
		p = max(p, untested)
	}
	if share*n < dropsAtOnce || share <= a.background+drops {
		return 0
	}
	return share*n - 1 - (p*n + alarm*math.Sqrt(p*(1-p)*n))
}

// collapse lowers the limit by half of the share that failed, at most once for
// the work of one round trip (as in DCTCP, RFC 8257).
func (a *Auto) collapse(now time.Duration) Branch {
	b := FailuresCut
	if a.round.failed == 0 {
		b = SlowCut
	}
	share, seen := a.round.bad()/a.round.ended, a.round.blame
	a.evidence = a.failing(&seen)
	a.round, a.recovery = round{}, now
	ep := &a.episode
	if ep.calm > 0 { // failures came back on the way back
		a.limit = a.clamp(ep.calm)
		*ep = episode{}
	} else {
		if ep.before == 0 {
			*ep = episode{before: a.from, typical: a.typical, blame: seen}
		}
		a.limit = a.clamp(a.limit * (1 - share/2))
	}
	a.unbiased = now + min(a.lasts+a.lasts/10, maxTrips*a.typical)
	a.step, a.rest, a.back = fine, 1, 1
	a.begun()
	a.ref = elasticity.Window{}
	a.believe(a.limit, now)
	return a.bounded(b)
}

// acquit ends an episode in which failures do not depend on the limit: they are
// background, and the limit returns to its value before the episode.
func (a *Auto) acquit(now time.Duration) Branch {
	a.evidence = a.failing(&a.episode.blame)
	a.background = max(a.background, a.episode.blame.Share())
	a.believe(a.clamp(a.episode.before), now)
	a.episode = episode{}
	a.round, a.recovery = round{}, now
	a.ref = elasticity.Window{}
	return CutAcquitted
}

// calm ends a round without a surprise.
func (a *Auto) calm(now time.Duration) Branch {
	share := min(a.round.bad()/a.round.ended, untested)
	if share > a.background {
		a.background += (share - a.background) / 16
	} else {
		a.background += (share - a.background) / fading
	}
	a.round = round{}
	switch ep := &a.episode; {
	case ep.before == 0:
		return a.overfilled(now)
	case a.trial == trim: // its verdict comes first
		return Stay
	case ep.calm == 0 && ep.typical > 0 && math.Log(float64(a.typical)/float64(ep.typical)) < (1-gain)*math.Log(a.limit/ep.before):
		*ep = episode{} // the cut has shortened a queue
		return Stay
	}
	return a.undo(now)
}

// undo takes a cut back, halfway each time, and stops where failures return. If
// they do not return at the old limit, and did not depend on load, they ended without
// a reason, and are likely to come again: half of them count as background.
func (a *Auto) undo(now time.Duration) Branch {
	ep := &a.episode
	a.evidence = a.failing(&ep.blame)
	if a.limit >= ep.before {
		if ep.blame.AtLeast() < blamed {
			a.background = max(a.background, (a.background+ep.blame.Share())/2)
		}
		*ep = episode{}
		return Stay
	}
	ep.calm = a.limit
	if a.limit = max(math.Sqrt(a.limit*ep.before), a.limit+1); a.limit > 0.9*ep.before {
		a.limit = ep.before
	}
	a.believe(a.clamp(a.limit), now)
	a.ref = elasticity.Window{}
	a.recovery = now
	return CutUndone
}

// overfilled lowers the limit below the units in flight at which refusals begin,
// if refusals depend on the units in flight.
func (a *Auto) overfilled(now time.Duration) Branch {
	b := &a.blame
	n, ok := b.Onset()
	if !ok || b.AtLeast() < blamed {
		return Stay
	}
	a.evidence = a.failing(b)
	*b = elasticity.Blame{}
	if n >= a.limit {
		return Stay
	}
	a.believe(a.clamp(n), now)
	a.begun()
	a.ref = elasticity.Window{}
	a.step, a.rest = fine, maxRest
	return a.bounded(RefusalsCut)
}
