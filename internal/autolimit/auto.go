// Package autolimit is the control law of limit.NewAuto. docs/auto-proof.md derives it.
package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/elasticity"
	"github.com/weir-go/weir/internal/outcome"
)

// Constants of the control law. The arena (weirlab arena) is where they were
// chosen. But for the length of the shortest slot, none of them has a unit.
const (
	// gain is the share of a change of the limit that has to become
	// throughput, 1 - gain being what may become latency. 0.5 would weigh
	// both alike; less favours throughput.
	gain = 0.3

	fine   = 0.1  // the smallest raise that is tried, as a share of the limit
	coarse = 0.35 // the largest raise that noise alone calls for
	steep  = 0.25 // the largest raise after the start
	big    = 0.3  // the change, as a logarithm, from which on it is no small step

	changed = 0.15 // the difference of logarithms that is no fluctuation, however steady the work

	unlike  = 1.2 // standard errors that leave a chance of some per cent
	suspect = 2.5 // standard errors that make a suspicion

	// A window is long enough to tell a change from noise, but not longer
	// than this number of round trips, or of samples.
	maxTrips   = 40
	maxSamples = 800

	soon    = 10 // round trips in which a trim is judged
	maxRest = 3  // windows between two raises, at most
	left    = 16 // round trips until a raise back to a limit that a trim has left
	putOff  = 64 // windows that late work can put a raise off by, at most

	smooth = 16 // samples that the typical duration is smoothed over
	clip   = 4  // times it that one piece of work counts for at most

	spoilt = 200 // works to be done for one that a raise has spoilt
)

// A trial is a change of the limit that is not yet judged.
type trial uint8

const (
	none  trial = iota // measuring under a limit that is believed in
	raise              // measuring whether more in flight is more throughput
	trim               // measuring whether a little less in flight takes less time
	lower              // a drain: measuring whether less in flight takes less time
)

// A Sample is limit.Sample, which the compiler keeps alike.
type Sample struct {
	Start, End time.Duration
	Waited     time.Duration
	Inflight   int
	N          int
	Outcome    weir.Outcome
	Cost       float64
}

// took is how long the work would have taken if it cost as much as all work does on average. By
// that, work of different routes tells the same of a queue.
func (s *Sample) took() time.Duration {
	if s.Cost > 0 {
		return time.Duration(float64(s.End-s.Start) / s.Cost)
	}
	return s.End - s.Start
}

// cost is the weight of a sample: by Little's law, dear work has as many more units in flight as it
// takes longer.
func (s *Sample) cost() float64 {
	if s.Cost > 0 {
		return s.Cost
	}
	return 1
}

// A Branch is an action of the law at a sample. The table of package limit says what leads to it.
type Branch uint8

const (
	Stay Branch = iota // the limit does not change
	RaiseBegins
	RaiseKept
	RaiseCut
	RaiseRefused
	TrialUnused
	TrimBegins
	TrimKept
	TrimUndone
	DrainBegins
	DrainMetQueue
	DrainQuiet
	FailuresCut
	SlowCut
	RefusalsCut
	CutAcquitted
	CutUndone
	Resumed
	AtFloor
	AtCeiling

	Branches = iota
)

// Auto is the state of the control law. It is not safe for concurrent use.
type Auto struct {
	healthy              time.Duration // work that takes longer has failed; 0 = no bound
	initial, least, most float64       // where the limit begins, and its bounds
	limit                float64       // its whole part is the limit
	from                 float64       // the limit that is believed in, of which limit is a trial
	trial                trial
	evidence             Evidence

	since   time.Duration // when the limit last moved
	settle  time.Duration // how long after that work from before has mostly ended
	typical time.Duration // how long a success takes, smoothed; 0 = none was seen
	trip    time.Duration // how long a unit is in flight, smoothed: longer than typical, as dear work has more units
	seen    float64       // costs of successes, up to smooth

	window   elasticity.Window   // what has ended since then
	ref      elasticity.Window   // what ended under from
	baseline elasticity.Baseline // how long work takes without a queue
	binding  float64             // share of the work that was admitted to a full limit, smoothed

	starting bool    // growing freely: no queue has been met yet
	step     float64 // the next raise, as a share of the limit
	rest     int     // windows until the next raise
	back     int     // what rest will be after a raise that failed
	peak     int     // most units in flight since the trial began
	unused   int     // samples since the trial began that did not use the limit
	late     float64 // failures of work that began in the trial, weighed
	trimmed  bool    // a trim was tried: the next has to wait until a raise was kept
	alone    bool    // a trial of this limiter has made all of a queue longer, or shorter, since a drain met one
	raisedIn int64   // the slot of the last raise without a proven baseline

	raiseAt time.Duration // no raise before

	logged     int      // units in flight, of which
	logOf      float64  // this is the logarithm
	nextOf     trialKey // for which
	nextStride float64  // this is the next stride
	nextNeed   int      // and these are the samples of its reference

	commonTrials // what all limiters do together
	failures     // what has failed
}

// New returns an Auto that begins at a limit, within bounds: the fields of limit.Config. Zero has a
// meaning for healthy only.
func New(initial, least, most int, healthy time.Duration) *Auto {
	n := float64(initial)
	a := &Auto{
		least: float64(least), most: float64(most), healthy: healthy, initial: n, limit: n, from: n, since: math.MinInt64,
		baseline: elasticity.Baseline{Log: math.Inf(1)},
		starting: true, step: 1, back: 1,
		commonTrials: commonTrials{slots: slots{k: shortest}},
	}
	a.recovery, a.unbiased, a.raiseAt = math.MinInt64, math.MinInt64, math.MinInt64
	return a
}

func (a *Auto) Limit() int { return int(a.limit) }

func (a *Auto) Sparse() bool { return true }

func (a *Auto) SetEpoch(d time.Duration) { a.slots.epoch = d }

func (a *Auto) Evidence() Evidence { return a.evidence }

// Observe takes a pointer, because to copy a sample that was just written costs as much
// as all the rest (BenchmarkObserve in inflight).
func (a *Auto) Observe(s *Sample) Branch {
	was := a.Limit()
	if b := a.observe(s); a.Limit() != was {
		return b
	}
	return Stay
}

func (a *Auto) observe(s *Sample) Branch {
	if outcome.Plain(s.Outcome) == weir.Ignored {
		return Stay
	}
	if b := a.tally(s); b != Stay {
		return b
	}
	if n, since := a.failuresBefore(s); n >= dropsAtOnce {
		if since > clip*a.typical {
			return a.restart(s.End)
		}
		return Stay // it tells how long work takes that goes on while other work fails
	}
	if a.slots.enter(s.End, a.trip) {
		if b := a.turn(s.End); b != Stay {
			return b
		}
	}
	if a.trial == raise && !a.starting && s.Start >= a.since && a.failed(s) {
		if a.late += a.weight(s) * s.cost(); a.late > (drops+a.background)*float64(a.need(a.trialled())) {
			return a.refused(s.End)
		}
	}
	return a.measure(s)
}

// measure takes in how long a piece of work took.
func (a *Auto) measure(s *Sample) Branch {
	took := a.clipped(s)
	if s.Outcome == weir.Success {
		a.recent.Add(took, a.log(s.Inflight), s.cost())
	}
	if s.Start >= a.since {
		a.peak = max(a.peak, s.Inflight)
	}
	if a.trial == lower {
		if s.Outcome == weir.Success && a.current(s) {
			a.window.Add(took, a.log(s.Inflight), s.cost())
		}
		return a.drained(s.End)
	}
	used := a.used(s)
	if used {
		a.binding += (1 - a.binding) / 16
	} else if a.binding -= a.binding / 16; a.binding < 1e-300 {
		a.binding = 0 // arithmetic with even smaller numbers is slow
	}
	switch {
	case s.Outcome == weir.Dropped, s.Outcome == outcome.TimedOut && took <= a.typical:
		return Stay // this tells of no other work; abandoned work would have taken longer
	case !used:
		return a.idle(s.End)
	case a.current(s):
		a.window.Add(took, a.log(s.Inflight), s.cost())
		return a.judge(s.End)
	}
	return Stay
}

// clipped is how long a piece of work took, but for outliers: a stream, or a
// request that is a thousand times as long, says little about the others.
func (a *Auto) clipped(s *Sample) time.Duration {
	took := max(s.took(), 1)
	if a.seen == smooth {
		took = max(min(took, clip*a.typical), 1)
	}
	if s.Outcome == weir.Success {
		a.seen = min(a.seen+s.cost(), smooth)
		part := min(s.cost()/a.seen, 1)
		a.typical += time.Duration(float64(took-a.typical) * part)
		a.trip += time.Duration((float64(took)*s.cost() - float64(a.trip)) * part)
	}
	return took
}

// log returns the logarithm of the units in flight, which are mostly those of the last
// sample.
func (a *Auto) log(inflight int) float64 {
	if n := max(inflight, 1); n != a.logged {
		a.logged, a.logOf = n, math.Log(float64(n))
	}
	return a.logOf
}

// used reports whether the limit, or the one believed in, was what held the
// work back: then another like it would hardly have fitted in.
func (a *Auto) used(s *Sample) bool {
	return 10*(s.Inflight+max(s.N, 1)-1) >= 9*int(min(a.limit, a.from))
}

// current reports whether a sample tells of the present limit. Work that
// started earlier does so too, once most has ended: if it were left out, only
// the fast would be seen, right after each change, and every change would
// seem to make work faster. While the limit grows freely, that is forgiven.
func (a *Auto) current(s *Sample) bool {
	switch {
	case a.trial == lower:
		return s.End-a.since >= a.drainTime*3/5
	case a.starting || a.settle == 0:
		return s.Start >= a.since
	}
	return s.End-a.since >= a.settle
}
