package limit

import (
	"math"
	"time"
)

// drains reports whether to take part in the drain of a slot.
func (a *auto) drains(k kind) bool {
	binds := a.binding > 0.5
	switch {
	case a.before.n == 0 || a.faster():
		return false
	case k == drainAll:
		return binds || a.suspects() || a.busy() && !a.proven && a.slots.length() < bearable
	case k == drainDoubt:
		return a.again || (!a.proven && binds || a.suspects()) && a.slots.rare(a.vain)
	}
	return k == free && a.again
}

// faster reports whether work takes less time than it did before: then what ended
// then is no reference.
func (a *auto) faster() bool {
	d := math.Log(a.typical.Seconds()) - a.before.log()
	return d < -max(2*changed, sure*a.before.noise(smooth, a.before.n))
}

// suspects reports whether work takes longer than it does without a queue.
func (a *auto) suspects() bool {
	d, noise := a.above(&a.before)
	return a.before.n >= enough && a.baseline.samples > 0 && d > max(waits, suspect*noise)
}

// drain halves what is in flight, for a moment.
func (a *auto) drain(now time.Duration, all bool) Cause {
	a.untry(now)
	n := a.limit
	if a.binding <= 0.5 && a.before.n > 0 {
		n = min(n, math.Exp(a.before.inflight()))
	}
	a.quiet, a.again, a.all = false, false, all
	if n = a.clamp(n / 2); int(n) >= a.Limit() {
		return Kept
	}
	a.evidence = a.resting(&a.before)
	a.try(lower, n, now)
	a.drainTime = drainTrips * a.typical
	return a.bounded(Drain)
}

// drained ends a drain that has lasted long enough.
func (a *auto) drained(now time.Duration) Cause {
	if now-a.since >= a.drainTime && a.window.n >= a.enough() {
		return a.endDrain(now)
	}
	return a.Expire(now)
}

// enough returns the samples that a drain needs: fewer, if all work takes alike.
func (a *auto) enough() int {
	if a.before.n < enough {
		return enough
	}
	return max(min(int(100*a.before.variance()), enough), 3)
}

// Deadline returns when a drain ends: in time, also if nothing else does.
func (a *auto) Deadline() (at time.Duration, ok bool) {
	return a.since + a.slots.length()/2, a.trial == lower
}

func (a *auto) Expire(now time.Duration) Cause {
	if at, ok := a.Deadline(); !ok || now < at {
		return Kept
	}
	return a.endDrain(now)
}

// endDrain judges a drain. It tells a queue from a slower service: with less work
// in flight the queue is shorter, and the slower service is not faster.
func (a *auto) endDrain(now time.Duration) Cause {
	w, ref := &a.window, &a.before
	a.limit = a.from
	if w.n < 3 || ref.n < 3 || w.inflight()-ref.inflight() > -0.05 {
		a.believe(now)
		return Throughput
	}
	change := w.inflight() - ref.inflight()
	longer := w.log() - ref.log()
	elasticity := longer / change
	noise := ref.noise(w.n, ref.n) / -change
	a.evidence = a.compared(w, ref, elasticity, noise)
	if elasticity > unqueued {
		a.begun()
	}
	if elasticity > max(queued, unqueued+unlike*noise) {
		return a.shorten(now, min(longer-noise*change, 0))
	}
	if a.binding <= 0.5 && !a.proven {
		a.limit = min(a.limit, max(2*math.Exp(ref.inflight()), float64(a.cfg.Initial)))
	}
	a.endQuietly(elasticity)
	a.believe(now)
	return Throughput
}

// shorten takes the units that only wait out of flight. By Little's law, the
// units at work are those in flight times the share of their time without a wait.
func (a *auto) shorten(now time.Duration, longer float64) Cause {
	inflight := a.before.inflight()
	n := max(math.Exp(inflight+longer)*(1+headroom/math.Sqrt(a.from)), math.Exp(inflight)/mostCut)
	if a.binding <= 0.5 { // it is not the limit that keeps the queue
		n = max(n, room*math.Exp(inflight))
	}
	a.again, a.vain, a.alone = true, 0, false
	a.baseline.learn(&a.window, false)
	a.healthy = a.window.most()
	a.limit = min(a.from, a.clamp(n))
	a.rest, a.back = 1, 1
	a.ref, a.before = window{}, window{}
	a.believe(now)
	return a.bounded(Queue)
}

// endQuietly learns from a drain that met no queue. A drain in which not all
// limiters take part does not replace a proven baseline.
func (a *auto) endQuietly(elasticity float64) {
	if !a.all && (a.proven || !a.alone || elasticity >= unqueued) {
		if d, _ := a.above(&a.before); elasticity < partly || d < 2*waits {
			a.vain = min(a.vain+1, 4)
		}
		return
	}
	seen := a.window
	if elasticity < unqueued { // then what was before has not waited either
		before := a.before
		before.merge(window{}, pooled*a.window.n)
		seen.merge(before, math.MaxInt)
	}
	a.baseline.learn(&seen, elasticity < unqueued)
	a.proven, a.vain = true, 0
	a.healthy = a.window.most()
}
