package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/elasticity"
)

// drains reports whether to take part in the drain of a slot.
func (a *Auto) drains(k kind) bool {
	binds := a.binding > 0.5
	switch {
	case a.before.N == 0 || a.faster():
		return false
	case k == drainAll:
		return binds || a.suspects() || a.busy() && !a.baseline.Proven && a.slots.length() < bearable
	case k == drainDoubt:
		return a.again || (!a.baseline.Proven && binds || a.suspects()) && a.slots.rare(a.vain)
	}
	return k == free && a.again
}

// faster reports whether work takes less time than it did before: then what ended
// then is no reference.
func (a *Auto) faster() bool {
	d := math.Log(a.typical.Seconds()) - a.before.Log()
	return d < -max(2*changed, elasticity.Sure*a.before.Noise(smooth, a.before.N))
}

// suspects reports whether work takes longer than it does without a queue.
func (a *Auto) suspects() bool {
	d, noise := a.baseline.Above(&a.before)
	return a.before.N >= enough && a.baseline.Samples > 0 && d > max(waits, suspect*noise)
}

// drain halves what is in flight, for a moment.
func (a *Auto) drain(now time.Duration, all bool) Cause {
	a.untry(now)
	n := a.limit
	if a.binding <= 0.5 && a.before.N > 0 {
		n = min(n, math.Exp(a.before.Inflight()))
	}
	a.quiet, a.again, a.all = false, false, all
	if n = a.clamp(n / 2); int(n) >= a.Limit() {
		return Kept
	}
	a.evidence = a.resting(&a.before)
	a.try(lower, n, now)
	a.drainTime = drainTrips * a.trip
	return a.bounded(Drain)
}

// drained ends a drain that has lasted long enough.
func (a *Auto) drained(now time.Duration) Cause {
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

func (a *Auto) Expire(now time.Duration) Cause {
	if at, ok := a.Deadline(); !ok || now < at {
		return Kept
	}
	return a.endDrain(now)
}

// endDrain judges a drain. It tells a queue from a slower service: with less work
// in flight the queue is shorter, and the slower service is not faster.
func (a *Auto) endDrain(now time.Duration) Cause {
	w, ref := &a.window, &a.before
	a.limit = a.from
	if w.N < 3 || ref.N < 3 || w.Inflight()-ref.Inflight() > -0.05 {
		a.believe(a.limit, now)
		return Throughput
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
		a.limit = min(a.limit, max(2*math.Exp(ref.Inflight()), float64(a.cfg.Initial)))
	}
	a.endQuietly(e)
	a.believe(a.limit, now)
	return Throughput
}

// shorten takes the units that only wait out of flight. By Little's law,
// the share of the units that work is the share of their time without a wait.
func (a *Auto) shorten(now time.Duration, longer float64) Cause {
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
	return a.bounded(Queue)
}

// endQuietly learns from a drain that met no queue. A drain in which not all
// limiters take part does not replace a proven baseline.
func (a *Auto) endQuietly(e float64) {
	if !a.all && (a.baseline.Proven || !a.alone || e >= unqueued) {
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
