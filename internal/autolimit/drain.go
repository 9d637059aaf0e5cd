package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/elasticity"
)

// joinsDrain reports whether to take part in the drain of a slot. Where work has become faster, what
// ended before is no reference.
func (a *Auto) joinsDrain(k kind) bool {
	switch {
	case a.before.N == 0 || a.latencyChange() < -max(2*changed, elasticity.Sure*a.before.Noise(smooth, a.before.N)):
		return false
	case k == drainAll:
		return a.binding > 0.5 || a.suspicion() > 0 ||
			a.inflightBefore() > math.Log(few) && !a.baseline.Proven && a.slots.length() < bearable
	case k == drainDoubt:
		return a.again || (!a.baseline.Proven && a.binding > 0.5 || a.suspicion() > 0) && a.slots.rare(a.vain)
	}
	return k == free && a.again
}

// latencyChange is by how much work takes longer now than before, as a logarithm.
func (a *Auto) latencyChange() float64 { return math.Log(a.typical.Seconds()) - a.before.Log() }

// latencyExcess is by how much work of a window takes longer than without a queue, as a logarithm, less
// what is no sign of a queue: tolerated, or a number of standard errors.
func (a *Auto) latencyExcess(w *elasticity.Window, tolerated, errors float64) float64 {
	d, noise := a.baseline.Above(w)
	return d - max(tolerated, errors*noise)
}

// suspicion is the latencyExcess before this slot that a drain should explain.
func (a *Auto) suspicion() float64 {
	if a.before.N < enough || a.baseline.Samples == 0 {
		return 0
	}
	return a.latencyExcess(&a.before, waits, suspect)
}

// drain halves what is in flight, for a moment.
func (a *Auto) drain(now time.Duration, k kind) Branch {
	a.untry(now)
	n := a.limit
	if a.binding <= 0.5 && a.before.N > 0 {
		n = min(n, math.Exp(a.before.Inflight()))
	}
	if a.again, a.use = false, disturbed; k == drainAll {
		a.use = together
	}
	if n = a.clamp(n / 2); int(n) >= a.Limit() {
		return Stay
	}
	a.evidence = a.resting(&a.before)
	a.try(lower, n, now)
	a.drainTime = drainTrips * a.trip
	return a.bounded(DrainBegins)
}

// drained ends a drain that has lasted long enough.
func (a *Auto) drained(now time.Duration) Branch {
	if now-a.since >= a.drainTime && a.window.N >= a.enough() {
		return a.endDrain(now)
	}
	return a.Expire(now)
}

// enough returns the samples that a drain needs: fewer, if all work takes alike.
func (a *Auto) enough() int {
	if a.before.N < enough {
		return enough
	}
	return max(min(int(100*a.before.Variance()), enough), 3)
}

// Deadline returns when a drain ends: in time, also if nothing else does.
func (a *Auto) Deadline() (at time.Duration, ok bool) {
	return a.since + a.slots.length()/2, a.trial == lower
}

func (a *Auto) Expire(now time.Duration) Branch {
	if at, ok := a.Deadline(); !ok || now < at {
		return Stay
	}
	return a.endDrain(now)
}

// endDrain judges a drain. It tells a queue from a slower service: with less work
// in flight the queue is shorter, and the slower service is not faster.
func (a *Auto) endDrain(now time.Duration) Branch {
	w, ref := &a.window, &a.before
	a.limit = a.from
	if w.N < 3 || ref.N < 3 || w.Inflight()-ref.Inflight() > -0.05 {
		a.believe(a.limit, now)
		return DrainQuiet
	}
	change := w.Inflight() - ref.Inflight()
	longer := w.Log() - ref.Log()
	e := longer / change
	noise := ref.Noise(w.N, ref.N) / -change
	a.evidence = a.compared(w, ref, e, noise)
	if e > unqueued {
		a.begun()
	}
	if e > max(queued, unqueued+unlike*noise) {
		return a.shorten(now, min(longer-noise*change, 0))
	}
	if a.binding <= 0.5 && !a.baseline.Proven {
		a.limit = min(a.limit, max(2*math.Exp(ref.Inflight()), a.initial))
	}
	a.endQuietly(e)
	a.believe(a.limit, now)
	return DrainQuiet
}

// shorten takes the units that only wait out of flight. By Little's law,
// the share of the units that work is the share of their time without a wait.
func (a *Auto) shorten(now time.Duration, longer float64) Branch {
	inflight := a.before.Inflight()
	n := max(math.Exp(inflight+longer)*(1+headroom/math.Sqrt(a.from)), math.Exp(inflight)/mostCut)
	if a.binding <= 0.5 { // it is not the limit that keeps the queue
		n = max(n, room*math.Exp(inflight))
	}
	a.again, a.vain, a.alone = true, 0, false
	a.baseline.Learn(&a.window, false)
	a.rest, a.back = 1, 1
	a.ref, a.before = elasticity.Window{}, elasticity.Window{}
	a.believe(min(a.from, a.clamp(n)), now)
	return a.bounded(DrainMetQueue)
}

// endQuietly learns from a drain that met no queue. A drain in which not all
// limiters take part does not replace a proven baseline.
func (a *Auto) endQuietly(e float64) {
	if a.use != together && (a.baseline.Proven || !a.alone || e >= unqueued) {
		if d, _ := a.baseline.Above(&a.before); e < partly || d < 2*waits {
			a.vain = min(a.vain+1, 4)
		}
		return
	}
	seen := a.window
	if e < unqueued { // then what was before has not waited either
		before := a.before
		before.Merge(elasticity.Window{}, pooled*a.window.N)
		seen.Merge(before, math.MaxInt)
	}
	a.baseline.Learn(&seen, e < unqueued)
	a.baseline.Proven, a.vain = true, 0
}
