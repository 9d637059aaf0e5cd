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
	layers := len(states)
	of := make([]callCost, layers)     // one visit to the layer, and what it calls
	own := make([]visitCost, layers)   // of that, the part of the layer
	below := make([][]float64, layers) // visits to each layer by one that reaches the worker
	good := make([]float64, layers)    // share of visits that reach the worker
	for i := layers - 1; i >= 0; i-- {
		l, st := &sc.Layers[i], &states[i]
		k := l.class(class)
		work := k.Mean.Seconds()
		if !k.Stream {
			work *= st.slowdown
		}
		work /= l.running()
		hold, pass, succeeds := 0.0, 1.0, work
		below[i] = make([]float64, layers)
		for _, to := range sc.targets(i, class) {
			visits, served := visitsOf(of[to].works, max(l.Attempts, 1))
			below[i][to] += pass * visits
			hold += pass * visits * of[to].takes
			succeeds += of[to].success
			pass *= served
		}
		failure, refusal, hang := st.shares(l, class)
		good[i] = max(1-failure-refusal-hang, 0)
		of[i] = callCost{works: max(good[i], least) * pass, success: succeeds, stream: k.Stream}
		of[i].takes = good[i]*(work+hold) + failure*st.faults.failAfter.Mean.Seconds() +
			refusal*st.faults.refuseAfter.Mean.Seconds() + hang*sc.hangs(i, st.faults.hangFor).Seconds()
		if !k.Stream {
			own[i] = visitCost{max(good[i], least) * work * l.running(), max(good[i], least) * hold}
		}
		if l.FailWorks {
			own[i].own += failure * st.faults.failAfter.Mean.Seconds()
		}
	}
	c := of[0]
	visits := make([]float64, layers)
	visits[0] = 1
	for i, n := range visits {
		c.visits = append(c.visits, visitCost{n * own[i].own, n * own[i].hold})
		for to := range visits {
			visits[to] += n * max(good[i], least) * below[i][to]
		}
	}
	return c
}

// visitsOf returns the mean number of visits for one call of a layer, which serves a visit with
// the probability works, and the probability that the call is served.
func visitsOf(works float64, attempts int) (visits, served float64) {
	served = 1 - math.Pow(1-works, float64(attempts))
	if works > 0 {
		return served / works, served
	}
	return float64(attempts), served
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
