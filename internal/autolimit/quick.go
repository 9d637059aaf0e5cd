package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/elasticity"
)

// Constants of quick work.
const (
	mostQueue = 4 // times the limit without a queue that the limit may be

	precise = 1000 // samples that tell the throughput
	cost    = 1.05 // the throughput without a queue over that with it, if that is no cost
	nearly  = 0.9  // the least share of the throughput during a drain that goes on

	slow     = 2    // times QuickLatency that ends a queue at once,
	slowFor  = 8    // after a part of the shortest slot
	harmless = 0.01 // the share of failures that does not

	mostRefused = 6  // the exponent of the slots after which a refused raise is tried again, at most
	mostForgo   = 64 // drains of all until a queue is tried again, at most
)

// quickWork holds the state of a queue in the service that Auto allows while work is
// quick. A service may lose throughput by a queue, because its work contends for locks or
// memory. A drain measures the throughput without the queue, and the slots before and
// after it that with the queue: other changes of the throughput seldom look like that.
type quickWork struct {
	knee    float64       // the limit without such a queue; 0 = there is none
	quickAt time.Duration // when work was last quick, or almost
	ended   int           // work that has ended, halved with each slot, of which
	bad     int           // this number failed

	unsure  bool              // a drain is due that measures what the queue costs
	probe   float64           // the limit to which it cuts; 0 = a step below the present one
	checked float64           // the units in flight before the last one
	alleged elasticity.Window // of a drain in which the throughput was greater than before
	guilty  bool              // another drain has shown that already

	refusals int // raises of quick work in a row that were refused
	forgone  int // drains of all until a queue may be tried
	forgo    int // what forgone was after the last one that did harm
}

// quick reports whether work is quick: a queue for it is not worth a lower limit.
func (a *Auto) quick(w *elasticity.Window) bool {
	return a.forgone == 0 && w.N > 0 && w.Mean() <= a.cfg.QuickLatency
}

// mayQueue reports whether quick work may have a longer queue.
func (a *Auto) mayQueue(w *elasticity.Window) bool {
	return a.quick(w) && (a.knee == 0 || a.limit <= mostQueue*a.knee)
}

// quickUnits returns, by Little's law, the units in flight with which work is just as
// slow as quick work may be.
func (a *Auto) quickUnits(w *elasticity.Window) float64 {
	if a.forgone > 0 {
		return 0
	}
	return math.Exp(w.Inflight()) * a.cfg.QuickLatency.Seconds() / w.Mean().Seconds()
}

// allow lets quick work have a queue; without it, the limit were knee.
func (a *Auto) allow(now time.Duration, knee float64) {
	if a.knee == 0 {
		a.knee, a.quickAt, a.unsure, a.probe = a.clamp(knee), now, true, 0
	}
}

// measures reports whether a drain is due that measures what the queue costs.
func (a *Auto) measures() bool {
	if a.binding > 0.5 && a.limit > (1+steep)*a.checked {
		a.unsure, a.probe = true, 0
	}
	return a.knee > 0 && a.unsure && a.alleged.N == 0 && a.Limit() > a.cfg.Min
}

// putOff puts the next raise of quick work off after one was refused, the longer the more
// were: such raises are tried at any time.
func (a *Auto) putOff(now time.Duration) {
	if a.quick(&a.ref) {
		a.raiseAt = now + a.slots.length()<<a.refusals
		a.refusals = min(a.refusals+1, mostRefused)
	}
}

// depth returns the limit to which a drain of n units in flight cuts: to half of them, or
// to the next step if it measures what the queue of quick work costs.
func (a *Auto) depth(n float64) float64 {
	switch {
	case a.knee == 0 || !a.quick(&a.before):
		a.probe = a.clamp(n / 2)
	case a.probe == 0 || a.probe > n/mostCut:
		a.probe = a.clamp(n / mostCut)
	}
	return a.probe
}

// prolongs reports whether a drain lasts longer, to tell what a queue of quick work costs:
// as long as the drain itself costs little throughput.
func (a *Auto) prolongs() bool {
	return a.knee > 0 && a.window.N < precise && !a.starves()
}

// starves reports whether a drain costs throughput itself.
func (a *Auto) starves() bool {
	w, ref := &a.window, &a.before
	least := nearly * ref.Throughput()
	if w.N < precise {
		least *= 1 - elasticity.Sure/math.Sqrt(float64(w.N))
	}
	return w.Throughput() < least
}

// costs reports whether the throughput in a drain was greater than with the queue.
func (a *Auto) costs(drain, queue *elasticity.Window) bool {
	return a.knee > 0 && queue.N >= precise && queue.Inflight() > drain.Inflight() &&
		drain.Throughput() > (cost+elasticity.Sure*drain.Noise(drain.N, queue.N))*queue.Throughput()
}

// weigh draws the conclusion from a drain. If the queue seems to cost nothing, the next
// drain cuts the limit more, until one costs throughput itself: then the limit has come
// below what the service can work at.
func (a *Auto) weigh() {
	w, ref := &a.window, &a.before
	a.alleged = elasticity.Window{}
	switch {
	case a.knee == 0:
	case a.costs(w, ref):
		a.alleged, a.unsure = *w, true
	case a.starves():
		switch {
		case a.probe < a.knee: // the whole series did not find a cost
			a.forgo /= 2
		case a.all: // if only some drain, the others take their share
			a.knee = min(mostCut*a.probe, a.limit)
		}
		a.probe, a.guilty = 0, false
	case w.N >= precise:
		a.knee = min(a.knee, a.probe)
		a.limit = min(a.limit, a.clamp(mostQueue*a.knee))
		a.deepen()
	}
}

// deepen lets the next drain cut the limit more than this one did.
func (a *Auto) deepen() {
	least := float64(a.cfg.Min)
	a.unsure, a.guilty = a.probe > least, false
	a.probe = max(a.probe/mostCut, least)
}

// confirm ends a queue that costs throughput: beside the slots before and after a drain,
// and of another one. A single drain may meet a moment in which the service is faster.
func (a *Auto) confirm(now time.Duration) Cause {
	drain := a.alleged
	a.alleged = elasticity.Window{}
	switch {
	case drain.N == 0 || a.knee == 0:
		return Kept
	case !a.costs(&drain, &a.before):
		a.deepen()
		return Kept
	case !a.guilty:
		a.guilty = true
		return Kept
	}
	a.window = drain
	a.forbid()
	return a.cut(now, math.Exp(drain.Inflight()))
}

// harms ends a queue if work is no longer quick, or fails. The law for other work needs
// longer to notice: for that long, it would have more in flight than without a queue.
func (a *Auto) harms(s *Sample) Cause {
	a.ended++
	if a.failed(s) {
		a.bad++
	}
	switch {
	case a.typical/slow <= a.cfg.QuickLatency || a.knee == 0:
		a.quickAt = s.End
	case s.End-a.quickAt > 1<<shortest/slowFor:
		return a.unqueue(s.End)
	}
	if a.bad >= dropsAtOnce && float64(a.bad) > harmless*float64(a.ended) {
		return a.unqueue(s.End)
	}
	return Kept
}

// unqueue ends a queue at once.
func (a *Auto) unqueue(now time.Duration) Cause {
	if a.knee == 0 { // what fails does so without a queue
		a.forgone, a.ended, a.bad = max(a.forgo, 1), 0, 0
		return Kept
	}
	n := a.clamp(room * a.knee)
	a.believe(min(a.believed(), n), now)
	a.episode.before = min(a.episode.before, n)
	a.forbid()
	a.begun()
	a.ref = elasticity.Window{}
	a.round, a.recovery = round{}, now+1
	a.step, a.rest = fine, maxRest
	return a.bounded(Queue)
}

// forbid ends the queue. The next one is tried the later, the more of them did harm.
func (a *Auto) forbid() {
	forgo := min(max(1, 2*a.forgo), mostForgo)
	a.quickWork = quickWork{forgo: forgo, forgone: forgo, refusals: a.refusals}
}
