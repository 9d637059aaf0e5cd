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
	if c.Min == 0 {
		c.Min = 1
	}
	if c.Max == 0 {
		c.Max = max(10_000, c.Min)
	}
	if c.Initial == 0 {
		c.Initial = min(max(10, c.Min), c.Max)
	}
	return c
}

// Validate says which field is out of range, or returns nil.
func (c AutoConfig) Validate() error {
	d := c.withDefaults()
	switch {
	case d.Min < 1:
		return fmt.Errorf("limit: Min = %d: must be >= 1", c.Min)
	case d.Max < d.Min:
		return fmt.Errorf("limit: Max = %d: must be >= Min (%d)", c.Max, d.Min)
	case d.Initial < d.Min || d.Initial > d.Max:
		return fmt.Errorf("limit: Initial = %d: must be in [%d, %d]", c.Initial, d.Min, d.Max)
	case d.MaxHealthyLatency < 0:
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
	gain = 0.4

	fine   = 0.1 // the smallest raise or cut that is tried, as a share of the limit
	coarse = 0.5 // the largest that noise alone calls for

	sure = 2 // standard errors that make a difference

	// A window is long enough to tell a change from noise, but not longer
	// than so many round trips, or samples.
	maxTrips   = 40
	maxSamples = 800

	maxRest = 16 // windows between two raises, at most
	recheck = 64 // windows after which less is tried although nothing is suspected

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
	window window        // what has ended since then
	ref    window        // what ended under from
	base   float64       // ln of the time that work takes without a queue,
	known  bool          // if that has been seen: less was tried, and was not faster

	starting bool    // growing freely: no queue has been met yet
	step     float64 // of the next raise, as a share of the limit
	cut      float64 // of the next cut
	rest     int     // windows until the next raise
	back     int     // what rest will be after a raise that failed
	check    int     // windows until the next cut
	unused   int     // samples since the trial began that did not use it

	recovery      time.Duration // work that started before is of the last collapse
	ended, failed int           // outcomes since then
	every         int           // of so much work, one sample is enough
}

// NewAuto returns an Auto, or the error of cfg.Validate.
func NewAuto(cfg AutoConfig) (*Auto, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Auto{
		cfg: cfg, limit: float64(cfg.Initial), from: float64(cfg.Initial),
		since: math.MinInt64, recovery: math.MinInt64, base: math.Inf(1),
		starting: true, step: 1, cut: fine, back: 1, check: recheck, every: 1,
	}, nil
}

// Limit returns the units that may be in flight now.
func (a *Auto) Limit() int { return int(a.limit) }

// Every returns the k of which Auto needs but every k-th sample: enough for
// it are some thousand a second.
func (a *Auto) Every() int { return a.every }

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
	outcome, took := judge(s.Outcome), s.End-s.Start
	slow := a.cfg.MaxHealthyLatency > 0 && took > a.cfg.MaxHealthyLatency
	if outcome == weir.Ignored {
		return Kept
	}
	if a.count(s.Start, slow || outcome == weir.Dropped) {
		if slow && outcome == weir.Success {
			return a.collapse(s.End, Slow)
		}
		return a.collapse(s.End, Dropped)
	}
	switch {
	case s.Outcome == weir.Dropped: // how long a failure takes says nothing
		return Kept
	case !a.used(s):
		return a.idle(s.End)
	case a.current(s):
		a.window.add(max(took, 1))
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
	a.limit = a.from
	a.believe(now)
	return Idle
}

// count counts an outcome, and reports whether there are too many failures.
func (a *Auto) count(start time.Duration, failed bool) bool {
	if start < a.recovery {
		return false
	}
	a.ended++
	if failed {
		a.failed++
	}
	many := a.failed >= dropsAtOnce && float64(a.failed) > drops*float64(a.ended)
	if a.ended < max(a.Limit(), 10) && (!many || 2*a.failed < a.ended) {
		return false
	}
	if !many {
		a.ended, a.failed = 0, 0
	}
	return many
}

// collapse lowers the limit by half of the share that failed, at most once for
// the work of one round trip.
func (a *Auto) collapse(now time.Duration, why Cause) Cause {
	share := float64(a.failed) / float64(a.ended)
	a.ended, a.failed = 0, 0
	a.recovery = now
	a.limit = a.clamp(a.limit * (1 - share/2))
	a.starting, a.step, a.rest, a.back = false, fine, 1, 1
	a.ref = window{}
	a.believe(now)
	return a.bounded(why)
}

// judge concludes the window, if it is long enough to.
func (a *Auto) judge(now time.Duration) Cause {
	switch a.trial {
	case raise:
		return a.judgeRaise(now)
	case lower:
		return a.judgeCut(now)
	default:
		return a.judgeRest(now)
	}
}

// judgeRest learns how long work takes under the limit, and begins a trial
// when it is time for one.
func (a *Auto) judgeRest(now time.Duration) Cause {
	stride := a.stride(a.step)
	need := a.need(math.Log1p(stride))
	if a.window.n < need {
		return Kept
	}
	if a.ref.n == 0 {
		a.ref = a.window
	} else if d := a.window.log() - a.ref.log(); math.Abs(d) > max(0.15, 2*sure*a.noise()) {
		// The world has changed. If work takes longer, nobody knows why yet.
		a.known = a.known && d < 0
		a.ref = a.window
		a.rest, a.back = 0, 1
	} else {
		a.ref.merge(a.window, 2*need)
	}
	a.learn(now)
	a.window = window{}
	a.base = min(a.base, a.ref.log())
	a.rest--
	a.check--
	queue := a.ref.log() - a.base
	suspect := !a.known || a.check <= 0 || queue > max((1-gain)*math.Log1p(stride), sure*a.ref.noise(need, need))
	switch {
	case suspect && !a.starting && a.Limit() > a.cfg.Min:
		a.check = recheck
		return a.try(lower, a.limit/(1+a.stride(a.cut)), now)
	case a.rest <= 0 && a.Limit() < a.cfg.Max:
		return a.try(raise, a.limit*(1+stride), now)
	}
	return Kept
}

// judgeRaise asks what became of a raise.
func (a *Auto) judgeRaise(now time.Duration) Cause {
	longer, latency, z, done := a.compare()
	if !done {
		return Kept
	}
	good, beyond := latency < 1-gain, float64(sure)
	if a.starting { // innocent until proven guilty
		good, beyond = z < 1, 3
	}
	queues := longer > max(0.05, beyond*a.noise())
	switch {
	case good && !queues: // all of it became throughput
		a.base, a.known = min(a.base, a.ref.log()), true
		a.ref = a.window
		a.learn(now)
		a.back, a.step = 1, min(1, 1.5*a.step)
		a.from = a.limit
		if a.ref.log()-a.base > (1-gain)*math.Log1p(a.step) || a.Limit() >= a.cfg.Max {
			a.rest = 1
			a.believe(now)
			return a.bounded(Throughput)
		}
		return a.try(raise, a.limit*(1+a.stride(a.step)), now)
	case a.trialled() > 0.3: // a long way: keep the part that did
		a.limit = max(a.limit*math.Exp(-max(longer, 0)), a.from)
		a.rest, a.step = 1, fine
		if a.starting {
			a.step = 0.25
			if !a.known {
				a.cut = 1
			}
		}
		a.starting = false
		a.ref = window{}
	case good:
		a.ref = a.window
		a.learn(now)
		a.rest, a.step = 1, fine
	default:
		a.limit = a.from
		a.step = fine
		a.back = min(2*a.back, maxRest)
		a.rest = a.back
	}
	a.believe(now)
	return Queue
}

// judgeCut asks what became of a cut. This is what tells a queue, which is
// shorter with less work, from a service that is slower, which is not faster
// with less.
func (a *Auto) judgeCut(now time.Duration) Cause {
	longer, latency, _, done := a.compare()
	if !done {
		return Kept
	}
	if latency > 1-gain { // it had queued
		a.ref = a.window
		a.learn(now)
		a.rest, a.back = 1, 1
		a.cut = min(1, 2*a.cut)
		if a.Limit() > a.cfg.Min {
			a.from = a.limit
			return a.try(lower, a.limit/(1+a.cut), now)
		}
		a.believe(now)
		return a.bounded(Queue)
	}
	a.base, a.known, a.cut = a.window.log(), true, fine
	if longer < -max(0.02, sure*a.noise()) { // some of it had
		a.limit = max(a.from*math.Exp(longer), a.limit)
		a.ref = window{}
	} else {
		a.limit = a.from
	}
	a.believe(now)
	return Throughput
}

// compare returns by how much longer work takes in the trial than before (as
// the difference of logarithms), which share of the change of the limit that
// is, and how many standard errors it is from what is tolerated.
func (a *Auto) compare() (longer, latency, z float64, done bool) {
	if a.window.n < 3 {
		return 0, 0, 0, false
	}
	change := math.Log(math.Floor(a.limit) / math.Floor(a.from))
	longer = a.window.log() - a.ref.log()
	latency = longer / change
	z = (latency - (1 - gain)) / (a.noise() / math.Abs(change))
	need := a.need(change)
	done = a.window.n >= need || a.window.n >= need/3 && math.Abs(z) > 2*sure
	return longer, latency, z, done
}

// try begins a trial of n units; at least one more, or less, than now.
func (a *Auto) try(t trial, n float64, now time.Duration) Cause {
	if t == raise {
		n = max(n, math.Floor(a.limit)+1)
	} else if math.Floor(n) >= math.Floor(a.limit) {
		n = math.Floor(a.limit) - 1
	}
	a.from, a.limit = a.limit, a.clamp(n)
	a.trial, a.since, a.window, a.unused = t, now, window{}, 0
	if t == raise {
		return a.bounded(Throughput)
	}
	return a.bounded(Queue)
}

// believe ends a trial: the limit is what it is now.
func (a *Auto) believe(now time.Duration) {
	a.trial, a.from, a.since, a.window = none, a.limit, now, window{}
}

// learn takes from the reference how long work lasts, and how often it is to
// be asked.
func (a *Auto) learn(now time.Duration) {
	a.settle = a.ref.most()
	if span := now - a.since; a.window.n > 0 && span > 0 {
		a.every = everyFor(float64(a.window.n*a.every) / span.Seconds())
	}
}

// everyFor returns the power of two that leaves about 2,000 samples a second.
func everyFor(rate float64) int {
	k := 1
	for k < 64 && rate > float64(4000*k) {
		k *= 2
	}
	return k
}

// stride returns the share of the limit by which a trial changes it: at least
// step, and so much that a window can tell it from noise.
func (a *Auto) stride(step float64) float64 {
	return max(step, min(coarse, 2*sure*math.Sqrt(2*a.ref.variance()/float64(a.longest()))/(1-gain)))
}

// need returns the samples of a window that tells a change of the limit by a
// factor of exp(change) from noise.
func (a *Auto) need(change float64) int {
	w := &a.ref
	if w.n < 3 {
		w = &a.window
	}
	tolerated := (1 - gain) * change
	n := 2 * sure * sure * w.variance() / (tolerated * tolerated)
	return int(min(max(n, 3, a.limit), float64(a.longest())))
}

// longest returns the most samples that a window may need.
func (a *Auto) longest() int {
	return max(a.Limit(), min(maxSamples, maxTrips*a.Limit()))
}

// noise is the standard error of a comparison of the window with the
// reference; never nothing, as the world is never quite the same.
func (a *Auto) noise() float64 { return a.ref.noise(a.window.n, a.ref.n) }

// trialled is the size of the trial, as the logarithm of a factor.
func (a *Auto) trialled() float64 { return math.Abs(math.Log(a.limit / a.from)) }

func (a *Auto) clamp(n float64) float64 {
	return min(max(n, float64(a.cfg.Min)), float64(a.cfg.Max))
}

// bounded is why, unless the limit has come to a bound.
func (a *Auto) bounded(why Cause) Cause {
	switch {
	case a.Limit() >= a.cfg.Max && why == Throughput:
		return Ceiling
	case a.Limit() <= a.cfg.Min && a.Limit() > 1:
		return Floor
	}
	return why
}
