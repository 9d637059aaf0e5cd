package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/elasticity"
)

// judge draws the conclusion from the window, if it is long enough.
func (a *Auto) judge(now time.Duration) Branch {
	switch a.trial {
	case raise:
		return a.judgeRaise(now, false)
	case trim:
		return a.judgeTrim(now)
	}
	return a.judgeRest(now)
}

// judgeRest learns how long work takes under the limit, and begins a trial
// when it is time for one.
func (a *Auto) judgeRest(now time.Duration) Branch {
	stride, need := a.next()
	if a.window.N >= max(enough, a.Limit()) && a.ref.N > 0 && !a.window.Near(&a.ref) {
		if d := a.window.Log() - a.ref.Log(); math.Abs(d) > max(changed, 2*elasticity.Sure*a.noise()) {
			// Work has become faster or slower, perhaps in the middle of this window:
			// begin with new windows.
			a.ref, a.window = elasticity.Window{}, elasticity.Window{}
			a.rest, a.back = 0, 1
			if d < 0 {
				a.step = max(a.step, steep)
			}
			return Stay
		}
	}
	if a.window.N < need {
		return Stay
	}
	if a.ref.N == 0 {
		a.ref = a.window
	} else {
		a.ref.Merge(a.window, 2*need)
	}
	a.settle = a.ref.Most()
	a.window = elasticity.Window{}
	a.baseline.Learn(&a.ref, false)
	a.rest--
	if a.limit >= a.most { // no room to grow
		a.begun()
	}
	if smaller := a.stride(min(a.step, steep)); a.trims(smaller) {
		a.evidence = a.resting(&a.ref)
		return a.try(trim, a.limit/(1+smaller), now)
	}
	if a.rest <= 0 && now >= a.raiseAt && a.limit < a.most && (a.starting || a.queueing() < 0 && !a.again && a.raisesLeft() > 0) {
		if !a.starting {
			a.raisedIn = a.slots.id
		}
		a.evidence = a.resting(&a.ref)
		return a.try(raise, a.limit*(1+stride), now)
	}
	return Stay
}

// trialKey holds what the next trial depends on.
type trialKey struct {
	ref         elasticity.Window
	limit, step float64
	starting    bool
}

// next returns the stride of the next raise, and the samples that its reference needs.
// Each sample asks for them, and they seldom change.
func (a *Auto) next() (stride float64, need int) {
	key := trialKey{a.ref, a.limit, a.step, a.starting}
	if a.ref.N < 3 || key != a.nextOf {
		a.nextOf, a.nextStride = key, a.stride(a.step)
		a.nextNeed = a.need(math.Log1p(a.nextStride))
	}
	return a.nextStride, a.nextNeed
}

// trims reports whether to try a smaller limit: if that can be judged soon.
func (a *Auto) trims(stride float64) bool {
	trips := soon
	if a.alone { // it may do so again and again
		trips = soon / 2
	}
	return !a.starting && !a.trimmed && (!a.baseline.Proven || a.alone) && a.Limit() > int(a.least) &&
		a.need(math.Log1p(stride)) <= trips*a.Limit()
}

// judgeRaise asks what became of a raise. If its slot is over, it is judged by what there is.
func (a *Auto) judgeRaise(now time.Duration, over bool) Branch {
	if a.starting && now-a.since < a.trip { // only the fast have ended
		return Stay
	}
	v, ok := a.compare(over)
	if !ok {
		return a.pending(now)
	}
	a.evidence = a.compared(&a.window, &a.ref, v.latency, v.noise)
	a.alone = a.alone || a.use != together && v.latency-unlike*v.noise > 1-gain
	// Not all of it may have become latency, for what is known.
	good, beyond := v.latency < min(1-gain, 1-unlike*v.noise), float64(elasticity.Sure)
	if a.use == together && a.suspicion() > 0 {
		good = v.latency+v.noise < 1-gain
	}
	if a.starting { // innocent until proven guilty
		good, beyond = v.z < 1, 3
	}
	queues := v.longer > max(0.05, beyond*a.noise())
	if good && a.alone {
		a.trimmed = false
	}
	switch {
	case good && !queues: // all of it became throughput
		a.baseline.Learn(&a.ref, false)
		if a.starting { // work that seems to take less time is the quicker part of it
			a.window.Prolong(a.ref.Log())
		}
		a.ref = a.window
		a.settle = a.ref.Most()
		a.back, a.step = 1, min(1, 1.5*a.step)
		if !a.starting {
			a.step = min(a.step, steep)
		}
		a.from = a.limit
		if a.queueing() >= 0 || !a.starting && !a.baseline.Proven || a.limit >= a.most {
			a.rest = 1
			a.believe(a.limit, now)
			return a.bounded(RaiseKept)
		}
		return a.try(raise, a.limit*(1+a.stride(a.step)), now)
	case a.trialled() > big: // a long way: keep the part that did
		a.limit = min(max(math.Exp(a.window.Inflight()-v.longer), a.from), a.limit)
		a.rest, a.step = 1, fine
		if v.latency < 1-gain {
			a.baseline.Learn(&a.ref, false)
		}
		if a.starting {
			a.step = steep
		}
		a.begun()
		a.ref = elasticity.Window{}
	case good:
		a.ref = a.window
		a.settle = a.ref.Most()
		a.rest, a.step = 1, fine
		a.begun()
	default:
		return a.refused(now)
	}
	a.believe(a.limit, now)
	return RaiseCut
}

// judgeTrim asks what became of a trim. Until a drain has proven the baseline, it
// is how a limiter finds out that it is alone with a queue: if others share the
// resource, less work of this limiter takes hardly less time, and nothing changes.
func (a *Auto) judgeTrim(now time.Duration) Branch {
	v, ok := a.compare(false)
	if !ok {
		return a.pending(now)
	}
	a.evidence = a.compared(&a.window, &a.ref, v.latency, v.noise)
	a.alone = a.alone || v.latency-unlike*v.noise > 1-gain
	a.trimmed = true
	if v.latency <= partly {
		a.believe(a.from, now)
		return TrimUndone
	}
	if v.latency > 1-gain { // above this limit there is a queue, and perhaps below it
		a.raiseAt = now + left*a.typical
		a.trimmed = false
		a.vain = max(a.vain, 2) // a drain would hardly meet another
	}
	a.episode = episode{} // there was a queue: the cut stays
	a.ref = a.window
	a.settle = a.ref.Most()
	a.believe(a.limit, now)
	return a.bounded(TrimKept)
}

// idle takes a trial back that is not used.
func (a *Auto) idle(now time.Duration) Branch {
	if a.trial == none {
		return Stay
	}
	if a.unused++; a.unused < 2*a.need(a.trialled()) {
		return Stay
	}
	return a.unneeded(now)
}

// unneeded takes a trial back that makes no difference. Of a raise that takes
// work no longer, it keeps what was used.
func (a *Auto) unneeded(now time.Duration) Branch {
	to := a.from
	if a.trial == raise && a.window.N >= 3 && float64(a.peak) > a.from {
		if longer := a.window.Log() - a.ref.Log(); longer < max(0.05, a.noise()) {
			to = min(float64(a.peak), a.limit)
		}
	}
	a.evidence = a.resting(&a.ref)
	a.back = min(2*a.back, maxRest)
	a.rest = a.back
	a.believe(to, now)
	return TrialUnused
}

// pending gives a trial up that goes on for too long: it makes no difference.
func (a *Auto) pending(now time.Duration) Branch {
	if a.window.N < 4*a.need(a.trialled()) {
		return Stay
	}
	return a.unneeded(now)
}

// A verdict is the result of a trial.
type verdict struct {
	longer  float64 // by how much longer work takes, as a difference of logarithms
	latency float64 // which share of the change in flight that is
	noise   float64 // the standard error of that
	z       float64 // how many of those it is from what is tolerated
}

// compare judges the trial; ok is false while it is too early for that, or
// while the trial makes no difference to what is in flight.
func (a *Auto) compare(over bool) (v verdict, ok bool) {
	w := &a.window
	need := a.need(a.trialled())
	if a.ref.N == 0 {
		return v, false
	}
	if w.N < max(need/3, a.Limit(), 3) && !(over && w.N >= 3) { // a round trip at least: in less, only the fast have ended
		return v, false
	}
	change := w.Inflight() - a.ref.Inflight()
	meant := math.Log(math.Floor(a.limit) / math.Floor(a.from))
	if change/meant < 0.5 {
		return v, false
	}
	v.longer = w.Log() - a.ref.Log()
	v.latency = v.longer / change
	v.noise = a.noise() / math.Abs(change)
	v.z = (v.latency - (1 - gain)) / v.noise
	return v, over || a.use != together && (w.N >= need || math.Abs(v.z) > 2*elasticity.Sure)
}

// try begins a trial of n units; at least one more, or less, than now.
func (a *Auto) try(t trial, n float64, now time.Duration) Branch {
	if t == raise {
		n = max(n, math.Floor(a.limit)+1)
	} else if math.Floor(n) >= math.Floor(a.limit) {
		n = math.Floor(a.limit) - 1
	}
	a.from, a.limit = a.limit, a.clamp(n)
	a.trial, a.since, a.window, a.unused = t, now, elasticity.Window{}, 0
	a.late, a.peak = 0, 0
	if t == raise {
		return a.bounded(RaiseBegins)
	}
	return a.bounded(TrimBegins)
}

// believe ends a trial: from now on the limit is n.
func (a *Auto) believe(n float64, now time.Duration) {
	a.limit, a.from = n, n
	a.trial, a.since, a.window = none, now, elasticity.Window{}
}

// stride returns the share of the limit by which a trial changes it: at least
// step, and so much that a window can tell it from noise.
func (a *Auto) stride(step float64) float64 {
	return max(step, min(coarse, 2*elasticity.Sure*math.Sqrt(2*a.ref.Variance()/float64(a.maxNeed()))/(1-gain)))
}

// need returns the samples of a window that tells a change of the limit by a
// factor of exp(change) from noise.
func (a *Auto) need(change float64) int {
	w := &a.ref
	if w.N < 3 {
		w = &a.window
	}
	tolerated := (1 - gain) * change
	n := 2 * elasticity.Sure * elasticity.Sure * w.Variance() / (tolerated * tolerated)
	if a.starting { // a wrong turn costs more than to look twice
		n = max(n, 32*w.Variance()/(w.Variance()+0.05))
	}
	return int(min(max(n, 3, a.limit), float64(a.maxNeed())))
}

// maxNeed returns the most samples that a window may need.
func (a *Auto) maxNeed() int {
	return max(a.Limit(), min(maxSamples, maxTrips*a.Limit()))
}

// noise is the standard error of a comparison of the window with the
// reference; never nothing, as the world is never quite the same.
func (a *Auto) noise() float64 { return a.ref.Noise(a.window.N, a.ref.N) }

// trialled is the size of the trial, as the logarithm of a factor.
func (a *Auto) trialled() float64 { return math.Abs(math.Log(a.limit / a.from)) }

func (a *Auto) clamp(n float64) float64 {
	return min(max(n, a.least), a.most)
}

// bounded is b, unless the limit has come to a bound.
func (a *Auto) bounded(b Branch) Branch {
	switch {
	case a.limit >= a.most && (b == RaiseBegins || b == RaiseKept):
		return AtCeiling
	case a.Limit() <= int(a.least) && a.Limit() > 1:
		return AtFloor
	}
	return b
}

// refused takes a raise back. What came too late for it speaks against the next
// one, not against the limit. The next is put off, the longer the more did: so
// that raises without a gain spoil half a per cent of the work at most.
func (a *Auto) refused(now time.Duration) Branch {
	need := max(a.need(math.Log1p(a.stride(fine))), 1)
	a.step = fine
	a.begun()
	a.round, a.recovery = round{}, now
	a.back = min(2*a.back, maxRest)
	a.rest = max(a.back, min(int(a.late*spoilt)/need, putOff))
	a.believe(a.from, now)
	return RaiseRefused
}

// begun ends the start. During it only the fastest work was seen, so the baseline
// begins with the next window.
func (a *Auto) begun() {
	if a.starting {
		a.starting = false
		a.baseline.Log, a.baseline.Samples = math.Inf(1), 0
		a.ref = elasticity.Window{}
	}
}

// queueing is the latencyExcess of the reference.
func (a *Auto) queueing() float64 { return a.latencyExcess(&a.ref, changed, elasticity.Sure) }

// raisesLeft returns the raises that may begin in this slot, which is one as long as the baseline is
// not proven.
func (a *Auto) raisesLeft() int {
	switch {
	case a.baseline.Proven:
		return math.MaxInt
	case a.raisedIn != a.slots.id:
		return 1
	}
	return 0
}
