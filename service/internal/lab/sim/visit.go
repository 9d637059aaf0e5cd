package sim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A callCost is the mean cost of an attempt of a call. Times are in seconds, without
// waits.
type callCost struct {
	visits  []visitCost // by layer
	works   float64     // probability that no fault ends it
	takes   float64     // mean duration, with or without success
	success float64     // mean duration of a success
	stream  bool        // it is a stream at the first layer
}

// A visitCost is the cost of a call at one layer.
type visitCost struct {
	own  float64 // worker time of the layer's own work
	hold float64 // worker time in which the work waits for the layer below
}

// least keeps the share of working calls above zero, so that the capacity in an outage
// is defined.
const least = 1e-9

// call returns the cost of a call of a class.
func (sc *Scenario) call(class string, states []layerState) callCost {
	c := callCost{visits: make([]visitCost, len(states)), works: 1}
	inner := make([]visitCost, len(states)) // of one visit to the layer
	below := make([]float64, len(states))   // visits to the next layer by one that works
	good := make([]float64, len(states))    // share of visits that reach the worker
	for i := len(states) - 1; i >= 0; i-- {
		l, st := &sc.Layers[i], &states[i]
		k := l.class(class)
		own := k.Mean.Seconds()
		if !k.Stream {
			own *= st.slowdown
		}
		own /= l.running()
		hold, pass, succeeds := 0.0, 1.0, own
		if i < len(states)-1 {
			below[i], pass = visitsBelow(c.works, l.calls(class), max(l.Attempts, 1))
			hold = below[i] * c.takes
			succeeds += float64(l.calls(class)) * c.success
		}
		failure, refusal, hang := st.shares(l, class)
		good[i] = max(1-failure-refusal-hang, 0)
		c.works = max(good[i], least) * pass
		c.success = succeeds
		c.takes = good[i]*(own+hold) + failure*st.faults.failAfter.Mean.Seconds() +
			refusal*st.faults.refuseAfter.Mean.Seconds() + hang*sc.hangs(i, st.faults.hangFor).Seconds()
		if !k.Stream {
			inner[i] = visitCost{max(good[i], least) * own * l.running(), max(good[i], least) * hold}
		}
		if l.FailWorks {
			inner[i].own += failure * st.faults.failAfter.Mean.Seconds()
		}
		c.stream = k.Stream
	}
	n := 1.0 // visits
	for i := range states {
		c.visits[i] = visitCost{n * inner[i].own, n * inner[i].hold}
		n *= max(good[i], least) * below[i]
	}
	return c
}

// visitsBelow returns the mean number of visits of a job to the layer below, which serves
// a visit with the probability works, and the probability that all calls are served.
func visitsBelow(works float64, calls, attempts int) (visits, pass float64) {
	served := 1 - math.Pow(1-works, float64(attempts)) // one call, in all its attempts
	tries := float64(attempts)
	if works > 0 {
		tries = served / works
	}
	pass = 1
	for range calls {
		visits += pass * tries
		pass *= served
	}
	return visits, pass
}

// shares returns the probabilities of the fates.
func (st *layerState) shares(l *Layer, class string) (failure, refusal, hang float64) {
	f := &st.faults
	switch {
	case f.down:
		return 0, 1, 0
	case st.flapped || !l.faulty(class):
		return 0, 0, 0
	}
	share := 1.0
	if l.Pods > 0 {
		share = float64(f.badPods) / float64(l.Pods)
	}
	return share * f.failure, share * f.refusal, share * f.hang
}

// hangs returns how long a job hangs at the i-th layer: at most until one of its callers
// leaves.
func (sc *Scenario) hangs(i int, hangFor time.Duration) time.Duration {
	bounds := []time.Duration{cmp.Or(hangFor, maxHang)}
	for _, l := range sc.Layers[:i+1] {
		bounds = append(bounds, cmp.Or(l.Timeout, never))
	}
	for k := range sc.Clients {
		bounds = append(bounds, cmp.Or(sc.Clients[k].Timeout, never), cmp.Or(sc.Clients[k].Deadline, never))
	}
	return slices.Min(bounds)
}
