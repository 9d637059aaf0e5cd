package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/elasticity"
)

// Constants of quick work.
const (
	precise   = 1000 // samples that tell the throughput
	cost      = 1.05 // the throughput without a queue over that with it, if that is no cost
	nearly    = 0.9  // the least share of the throughput during a drain that goes on
	mostForgo = 64   // drains of all until a queue is tried again, at most
)

// quickWork holds the state of a queue in the service that Auto allows while work is
// quick. A service may lose throughput by a queue, because its work contends for locks or
// memory. A drain measures the throughput without the queue, and the slots before and
// after it that with the queue: other changes of the throughput seldom look like that.
type quickWork struct {
	knee    float64           // the limit before such a queue; 0 = there is none
	checked float64           // the limit at which a drain has measured what the queue costs
	unsure  bool              // it is to be measured in the next free slot
	alleged elasticity.Window // of a drain in which the throughput was greater than before
	forgone int               // drains of all until a queue may be tried
	forgo   int               // what forgone was after the last one that cost throughput
}

// quick reports whether work is quick: a queue for it is not worth a lower limit.
func (a *Auto) quick(w *elasticity.Window) bool {
	return a.forgone == 0 && w.N > 0 && w.Mean() <= a.cfg.QuickLatency
}

// quickUnits returns, by Little's law, the units in flight with which work is just as
// slow as quick work may be.
func (a *Auto) quickUnits(w *elasticity.Window) float64 {
	if a.forgone > 0 || a.cfg.QuickLatency == 0 {
		return 0
	}
	return math.Exp(w.Inflight()) * a.cfg.QuickLatency.Seconds() / w.Mean().Seconds()
}

// allow lets quick work have a queue.
func (a *Auto) allow() {
	if a.knee == 0 {
		a.knee = a.from
	}
	a.unsure = a.unsure || a.limit > mostCut*a.checked
}

// prolongs reports whether a drain lasts longer, to tell what a queue of quick work costs:
// as long as the drain itself costs little throughput.
func (a *Auto) prolongs() bool {
	w, ref := &a.window, &a.before
	return a.knee > 0 && w.N < precise && w.Throughput() > nearly*ref.Throughput()
}

// costs reports whether the throughput in a drain was greater than with the queue.
func (a *Auto) costs(drain, queue *elasticity.Window) bool {
	return a.knee > 0 && queue.N >= precise && queue.Inflight() > math.Log(a.knee) &&
		drain.Throughput() > (cost+elasticity.Sure*drain.Noise(drain.N, queue.N))*queue.Throughput()
}

// weigh draws the conclusion from a drain. If the queue seems to cost nothing, the next
// drain cuts the limit more, or less if this one has cost throughput itself.
func (a *Auto) weigh() {
	w, ref := &a.window, &a.before
	a.alleged = elasticity.Window{}
	switch {
	case a.knee == 0:
	case a.costs(w, ref):
		a.alleged = *w
	case w.Throughput() < nearly*ref.Throughput():
		if a.knee *= mostCut; a.knee >= a.limit {
			a.knee = 0
		}
	case w.N >= precise:
		if a.unsure = a.knee > a.limit/2; !a.unsure {
			a.forgo = 0
		}
		a.knee = max(a.knee/mostCut, 1)
	}
}

// confirm ends a queue that costs throughput, if it costs it again. The next one is tried
// the later, the more of them did.
func (a *Auto) confirm(now time.Duration) Cause {
	drain := a.alleged
	a.alleged = elasticity.Window{}
	if drain.N == 0 || !a.costs(&drain, &a.before) {
		return Kept
	}
	a.forgo = min(max(1, 2*a.forgo), mostForgo)
	a.forgone = a.forgo
	a.window = drain
	knee := a.knee
	a.knee, a.checked = 0, knee
	return a.cut(now, knee)
}
