package limit

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
)

// AutoConfig sets up an Auto. The zero value is the one to use.
type AutoConfig struct {
	Initial int `json:"initial,omitempty"` // units. If zero, 10 (brought into [Min, Max])
	Min     int `json:"min,omitempty"`     // units, >= 1. If zero, 1
	Max     int `json:"max,omitempty"`     // units, >= Min. If zero, 10,000
	// MaxHealthyLatency, if not zero, is the longest that healthy work takes,
	// queues included: work that took longer counts as Dropped.
	MaxHealthyLatency time.Duration `json:"max_healthy_latency,omitempty"`
}

func (c AutoConfig) withDefaults() AutoConfig {
	fillBounds(&c.Initial, &c.Min, &c.Max, 10, 1, 10_000)
	return c
}

// Validate says which field is out of range, or returns nil.
func (c AutoConfig) Validate() error {
	d := c.withDefaults()
	if err := checkBounds(d.Initial, d.Min, d.Max); err != nil {
		return err
	}
	if d.MaxHealthyLatency < 0 {
		return fmt.Errorf("limit: MaxHealthyLatency = %v: must be >= 0", c.MaxHealthyLatency)
	}
	return nil
}

// Constants of the control law. The arena (weir arena) is where they were
// chosen; none of them has a unit, so they hold from microseconds to minutes.
const (
	// gain is the share of a change of the limit that has to become
	// throughput, 1 - share being what may become latency. 0.5 would weigh
	// both alike; less favours throughput.
	gain = 0.3

	fine   = 0.1  // the smallest raise or cut that is tried, as a share of the limit
	big    = 0.3  // the change, as a logarithm, from which on it is no small step
	coarse = 0.35 // the largest that noise alone calls for

	changed = 0.15 // the difference of logarithms that is no fluctuation, however steady the work

	sure    = 2   // standard errors that make a difference
	unlike  = 1.2 // that make a chance of some per cent
	suspect = 2.5 // and that make a suspicion, which costs a cut to settle

	// A window is long enough to tell a change from noise, but not longer
	// than so many round trips, or samples.
	maxTrips   = 40
	maxSamples = 800

	maxRest = 3  // windows between two raises, at most
	recheck = 64 // windows after which less is tried although nothing is suspected

	clip = 4 // times a typical duration that one piece of work counts for at most

	spoilt      = 200 // works to be done for one that a raise has spoilt
	drops       = 0.1 // share of work that fails by chance
	dropsAtOnce = 3   // failures that are no chance
)

// A trial is what Auto is at.
type trial uint8

const (
	none  trial = iota // measuring under a limit that is believed in
	raise              // measuring whether more in flight is more throughput
	lower              // measuring whether less in flight is less throughput
)

// Auto finds the limit by itself, without a number from anybody. See the
// package documentation for the control law.
type Auto struct {
	cfg   AutoConfig
	limit float64 // its whole part is the limit
	from  float64 // the limit that is believed in, of which limit is a trial
	trial trial

	since  time.Duration // when the limit last moved
	settle time.Duration // so long after that, work from before has mostly ended

	// Work that took no longer than that is not late because of what is in
	// flight: it began late. With less in flight, it would begin later still.
	healthy time.Duration

	typical time.Duration // how long a success takes, on average

	window window  // what has ended since then
	ref    window  // what ended under from
	base   float64 // ln of the time that work takes without a queue,
	baseN  int     // samples that the baseline rests on
	known  bool    // if that has been seen: less was tried, and was not faster

	starting bool    // growing freely: no queue has been met yet
	step     float64 // of the next raise, as a share of the limit
	cut      float64 // of the next cut
	rest     int     // windows until the next raise
	back     int     // what rest will be after a raise that failed
	check    int     // windows until the next cut
	peak     int     // units in flight, since the trial began
	unused   int     // samples since the trial began that did not use it
	late     float64 // samples of the trial that failed

	raisedIn    int64
	slots       slots
	all         bool   // the cut is one that all limiters make
	over        bool   // the slot of the trial is over
	recent      window // what has ended in this slot
	long        time.Duration
	beforeAt    time.Duration
	before      window // and in the last one without a common trial
	proven      bool   // base is of a drain that all made
	quiet, vain int
	calm0       bool
	again       bool          // the last drain has met a queue
	binding     float64       // share of work that was admitted to a full limit, of late
	refAt       time.Duration // when ref was last brought up to date
	blame       blame
	episode     episode
	background  float64       // share of failures that is not because of load
	fair        time.Duration // work that ended before tells only of what ended fast

	round    round         // outcomes since the last collapse
	recovery time.Duration // when that was: work that started before is part of it
	fell     window        // what had ended, before it,
	fellFrom float64       // under this limit
}

// NewAuto returns an Auto, or the error of cfg.Validate.
func NewAuto(cfg AutoConfig) (*Auto, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Auto{
		cfg: cfg, limit: float64(cfg.Initial), from: float64(cfg.Initial),
		since: math.MinInt64, recovery: math.MinInt64, fair: math.MinInt64, base: math.Inf(1),
		starting: true, step: 1, cut: fine, back: 1, check: recheck,
	}, nil
}

// Limit returns the units that may be in flight now.
func (a *Auto) Limit() int { return int(a.limit) }

// Sparse reports that a part of the samples is enough, if there are many.
func (a *Auto) Sparse() bool { return true }

// Observe learns from a sample.
func (a *Auto) Observe(s Sample) Cause {
	was := a.Limit()
	cause := a.observe(s)
	if a.Limit() == was {
		return Kept
	}
	return cause
}

func (a *Auto) observe(s Sample) Cause {
	if judge(s.Outcome) == weir.Ignored {
		return Kept
	}
	took := s.End - s.Start
	if cause := a.tally(s); cause != Kept {
		return cause
	}
	if a.slots.enter(s.End, a.typical) {
		if cause := a.turn(s.End); cause != Kept {
			return cause
		}
	}
	if a.trial == raise && !a.starting && s.Start >= a.since && a.failed(s) {
		if a.late += a.weight(s); a.late > (drops+a.background)*float64(a.need(a.trialled())) {
			return a.refused(s.End)
		}
	}
	if s.Outcome == weir.Success {
		if a.typical == 0 {
			a.typical = took
		}
		a.typical += (min(took, clip*a.typical) - a.typical) / 16
	}
	if s.Start >= a.since {
		a.peak = max(a.peak, s.Inflight)
	}
	if s.Outcome == weir.Success {
		a.recent.add(max(min(took, clip*a.typical), 1), s.Inflight)
	}
	if a.trial == lower {
		if s.Outcome == weir.Success && a.current(s) {
			a.window.add(max(min(took, clip*a.typical), 1), s.Inflight)
		}
		return a.drained(s.End)
	}
	if used := a.used(s); used {
		a.binding += (1 - a.binding) / 16
	} else {
		a.binding -= a.binding / 16
	}
	switch {
	case s.Outcome == weir.Dropped: // how long a failure takes says nothing
		return Kept
	case !a.used(s):
		return a.idle(s.End)
	case a.current(s):
		if a.typical > 0 {
			took = min(took, clip*a.typical)
		}
		a.window.add(max(took, 1), s.Inflight)
		return a.judge(s.End)
	}
	return Kept
}

// used reports whether the limit, or the one believed in, was what held the
// work back: then another like it would hardly have fitted in.
func (a *Auto) used(s Sample) bool {
	return 10*(s.Inflight+max(s.N, 1)-1) >= 9*int(min(a.limit, a.from))
}

// current reports whether a sample tells of the limit as it is now. Work that
// started earlier does so too, once most has ended: if it were left out, only
// the fast would be seen, right after each change, and every change would
// seem to make work faster. While the limit grows freely, that is forgiven.
func (a *Auto) current(s Sample) bool {
	if a.trial == lower {
		return s.End-a.since >= a.long*3/5
	}
	if a.starting || a.settle == 0 {
		return s.Start >= a.since
	}
	return s.End-a.since >= a.settle
}

// idle takes a trial back that nobody makes use of.
func (a *Auto) idle(now time.Duration) Cause {
	if a.trial == none {
		return Kept
	}
	if a.unused++; a.unused < 2*a.need(a.trialled()) {
		return Kept
	}
	return a.unneeded(now)
}

func (a *Auto) unneeded(now time.Duration) Cause {
	to := a.from
	if a.trial == raise && a.window.n >= 3 && float64(a.peak) > a.from {
		if longer := a.window.log() - a.ref.log(); longer < max(0.05, a.noise()) {
			to = min(float64(a.peak), a.limit)
		}
	}
	a.limit = to
	a.back = min(2*a.back, maxRest)
	a.rest = a.back
	a.believe(now)
	return Idle
}
