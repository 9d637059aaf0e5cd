package limit

import (
	"math"
	"time"

	"github.com/weir-go/weir"
)

// Constants of the judgement on failures.
const (
	untested = 0.05 // the share of failures that is taken for background without a test
	doubt    = 0.02 // the share that is never surprising
	alarm    = 4    // standard errors that make failures a surprise

	blamed   = 1.5  // the elasticity of failures above which load causes them
	innocent = 0.5  // and below which it does not
	fading   = 2048 // rounds after which a tested background is forgotten
	regain   = 4    // the factor of the limit in each calm round after an outage
)

// A round counts the outcomes of the work of one round trip. A failure counts
// by the share of a success's time that it took.
type round struct {
	ended        int
	failed, slow float64
	blame        blame
}

func (r *round) bad() float64 { return r.failed + r.slow }

// A blame is a regression of failure on the logarithm of the units in flight.
type blame struct {
	n, bad, x, xx, bx float64
	weight            float64 // of the bad
	most              int     // units that were in flight
}

func (b *blame) add(inflight int, bad bool, weight float64) {
	if b.n >= 2*maxSamples {
		b.n, b.bad, b.x, b.xx, b.bx, b.weight = b.n/2, b.bad/2, b.x/2, b.xx/2, b.bx/2, b.weight/2
	}
	x := math.Log(float64(max(inflight, 1)))
	b.n++
	b.most = max(b.most, inflight)
	b.x += x
	b.xx += x * x
	if bad {
		b.bad++
		b.weight += weight
		b.bx += x
	}
}

// elasticity is by how much the log-odds of failure grow with the logarithm of
// the units in flight, and its standard error.
func (b *blame) elasticity() (e, se float64) {
	if b.n < 10 || b.bad < 3 || b.bad > b.n-5 {
		return 0, math.Inf(1)
	}
	p := b.bad / b.n
	variance := b.xx/b.n - b.x/b.n*b.x/b.n
	if variance < 1e-6 {
		return 0, math.Inf(1)
	}
	spread := variance * p * (1 - p)
	return (b.bx/b.n - p*b.x/b.n) / spread, 1 / math.Sqrt(b.n*spread)
}

// An episode is what follows a collapse: an experiment with a lower limit.
type episode struct {
	before  float64       // the limit before it; 0 = there is none
	typical time.Duration // how long a success took
	good    int           // work that went well since
	blame   blame         // since then, and in the round before
	calm    float64       // the last limit that was calm, on the way back; 0 before
	lasts   time.Duration // how long a failure takes
}

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

// weight is what a failure counts: the share of a success's time that it took.
func (a *Auto) weight(s Sample) float64 {
	if a.typical == 0 {
		if s.Outcome == weir.Dropped {
			return 0
		}
		return 1
	}
	return min(1, float64(s.End-s.Start)/float64(a.typical))
}

// tally counts an outcome, and moves the limit if failures say so.
func (a *Auto) tally(s Sample) Cause {
	if s.Start < a.recovery || s.End < a.fair {
		return Kept
	}
	r := &a.round
	r.ended++
	bad := a.failed(s)
	if bad {
		w := a.weight(s)
		r.failed += w
		if w > 0.5 {
			a.episode.lasts = max(s.End-s.Start, a.episode.lasts-a.episode.lasts/16)
		}
	} else if a.cfg.MaxHealthyLatency > 0 && s.End-s.Start > a.cfg.MaxHealthyLatency {
		r.slow++
	}
	w := a.weight(s)
	a.blame.add(s.Inflight, bad, w)
	r.blame.add(s.Inflight, bad, w)
	if a.episode.before > 0 {
		a.episode.blame.add(s.Inflight, bad, w)
		if !bad {
			a.episode.good++
		}
	}
	whole := r.ended >= max(a.Limit(), 10)
	if a.surprising() && (whole || 2*r.bad() >= float64(r.ended)) {
		return a.collapse(s.End)
	}
	if a.episode.before > 0 && bad && a.episode.good >= 5 {
		if e, se := a.episode.blame.elasticity(); e+1.5*se < innocent {
			return a.acquit(s.End)
		}
	}
	if !whole {
		return Kept
	}
	return a.calm(s.End)
}

// surprising reports whether more has failed in this round than background
// failures explain.
func (a *Auto) surprising() bool {
	bad, n := a.round.bad(), float64(a.round.ended)
	p := max(a.background, doubt)
	return bad >= dropsAtOnce && bad > (a.background+drops)*n && bad-1 > p*n+alarm*math.Sqrt(p*(1-p)*n)
}

// calm ends a round without a surprise.
func (a *Auto) calm(now time.Duration) Cause {
	share := min(a.round.bad()/float64(a.round.ended), untested)
	if share > a.background {
		a.background += (share - a.background) / 16
	} else {
		a.background += (share - a.background) / fading
	}
	a.round = round{}
	ep := &a.episode
	if ep.before == 0 {
		return a.overfilled(now)
	}
	change := math.Log(a.limit / ep.before)
	if ep.calm == 0 && ep.typical > 0 && math.Log(float64(a.typical)/float64(ep.typical)) < (1-gain)*change {
		ep.before = 0 // there was a queue
		return Kept
	}
	ep.calm = a.limit
	a.limit = a.clamp(min(ep.before, max(a.limit*regain, a.limit+1)))
	if a.limit >= ep.before {
		ep.before = 0
		a.background = max(a.background, (a.background+ep.blame.weight/ep.blame.n)/2)
	}
	a.ref = window{}
	a.believe(now)
	a.recovery = now
	return Undone
}

// acquit ends an episode in which failures did not depend on the limit.
func (a *Auto) acquit(now time.Duration) Cause {
	a.background = max(a.background, a.episode.blame.weight/a.episode.blame.n)
	a.limit = a.clamp(a.episode.before)
	a.episode.before = 0
	a.round, a.recovery = round{}, now
	a.ref = window{}
	a.believe(now)
	return Undone
}

// overfilled lowers the limit below what was in flight when work was refused,
// if it is what was in flight that it was refused for.
func (a *Auto) overfilled(now time.Duration) Cause {
	b := &a.blame
	if b.bad < 10 {
		return Kept
	}
	e, se := b.elasticity()
	if e-2*se < blamed {
		return Kept
	}
	most := float64(b.most)
	n := max(math.Exp(b.bx/b.bad)-0.5, min(most-1, 0.95*most))
	*b = blame{}
	if n >= a.limit {
		return Kept
	}
	a.limit = a.clamp(n)
	a.step = fine
	a.begun()
	a.ref = window{}
	a.believe(now)
	a.rest = maxRest
	return a.bounded(Dropped)
}

// collapse lowers the limit by half of the share that failed, at most once for
// the work of one round trip.
func (a *Auto) collapse(now time.Duration) Cause {
	why := Dropped
	if a.round.failed == 0 {
		why = Slow
	}
	share := a.round.bad() / float64(a.round.ended)
	seen := a.round.blame
	a.round, a.recovery = round{}, now
	if a.window.n >= 3 && !a.starting { // while it grows freely, the queue is still to come
		change := math.Log(a.limit / a.fellFrom)
		excess := a.window.log() - a.fell.log() - (1-gain)*change
		if a.fell.n > 0 && excess > sure*a.window.noise(a.window.n, a.fell.n) {
			// Less work was not faster: it is the service that is slower.
			a.base, a.baseN, a.known = a.window.log(), a.window.n, true
			a.healthy = a.window.most()
		}
		a.fell, a.fellFrom = a.window, a.limit
	}
	ep := &a.episode
	switch {
	case ep.before == 0:
		*ep = episode{before: a.limit, typical: a.typical, lasts: ep.lasts, blame: seen}
		if a.trial != none {
			ep.before = a.from
		}
		a.limit = a.clamp(a.limit * (1 - share/2))
	case ep.calm > 0: // they came back
		a.limit = a.clamp(ep.calm)
		ep.before = 0
	default:
		a.limit = a.clamp(a.limit * (1 - share/2))
	}
	a.fair = now + ep.lasts + ep.lasts/10
	a.step, a.rest, a.back = fine, 1, 1
	a.begun()
	a.ref = window{}
	a.believe(now)
	return a.bounded(why)
}
