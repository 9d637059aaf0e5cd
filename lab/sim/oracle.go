package sim

import (
	"math"
	"time"

	"github.com/weir-go/weir/lab/dist"
)

// classes numbers the classes of the clients' mixes; the class "" is 0.
func (sc Scenario) classes() map[string]int32 {
	classes := map[string]int32{"": 0}
	for _, c := range sc.Clients {
		for _, share := range c.Mix {
			if _, known := classes[share.Class]; !known {
				classes[share.Class] = int32(len(classes))
			}
		}
	}
	return classes
}

// Capacity is how many calls per second the layers can bear at an instant, at
// most: the least over the layers of workers / how long a call holds one.
// Changes up to then are taken in, and pauses on average. What a call costs is
// the mean over the clients' mixes, at equal rates. Infinite if nothing bounds
// it.
func (sc Scenario) Capacity(at time.Duration) float64 {
	least, hold := math.Inf(1), 0.0
	visits := make([]float64, len(sc.Layers)) // by one call
	v := 1.0
	for i := range sc.Layers {
		visits[i] = v
		v *= float64(max(sc.Layers[i].Calls, 1))
	}
	for i := len(sc.Layers) - 1; i >= 0; i-- {
		l := &sc.Layers[i]
		state := l.at(at)
		own := sc.mean(l).Seconds() * state.slowdown
		least = min(least, l.most(own, hold, state)/visits[i])
		if i > 0 {
			hold = float64(max(sc.Layers[i-1].Calls, 1)) * (own + hold)
		}
	}
	return least
}

// most is the throughput that a layer can bear if a job works for own seconds
// and waits for hold.
func (l *Layer) most(own, hold float64, state layerState) float64 {
	if l.Sharing {
		hold = 0
	}
	if own+hold == 0 || state.workers == 0 {
		return math.Inf(1)
	}
	running := 1.0
	if l.Pause.Every > 0 {
		running -= l.Pause.For.Seconds() / l.Pause.Every.Seconds()
	}
	best := 0.0
	if l.Contention == (Contention{}) {
		best = float64(state.workers) / (own/running + hold)
	} else {
		for n := 1; n <= min(state.workers, 1_000_000); n++ {
			x := float64(n) / (own*l.Contention.factor(n)/running + hold)
			if x < best/2 {
				break // past the knee
			}
			best = max(best, x)
		}
	}
	if works := 1 - state.failure - state.refusal; works > 0 {
		return best / works // fast failures take no time
	}
	return math.Inf(1)
}

type layerState struct {
	workers                    int
	slowdown, failure, refusal float64
}

func (l *Layer) at(at time.Duration) layerState {
	st := layerState{l.Workers, 1, l.FailureRate, l.RefuseRate}
	for _, c := range l.Changes {
		if c.At <= at {
			set(&st.slowdown, c.Slowdown)
			set(&st.workers, c.Workers)
			set(&st.failure, c.FailureRate)
			set(&st.refusal, c.RefuseRate)
		}
	}
	return st
}

// works is the share of calls that no random failure ends.
func (sc Scenario) works(at time.Duration) float64 {
	share := 1.0
	for i := range sc.Layers {
		st := sc.Layers[i].at(at)
		share *= math.Pow(max(1-st.failure-st.refusal, 0), float64(max(sc.Layers[i].Calls, 1)))
	}
	return share
}

// mean is the mean service time of a layer over the clients' mixes.
func (sc Scenario) mean(l *Layer) time.Duration {
	of := func(class string) dist.ServiceTime {
		if own, ok := l.Classes[class]; ok {
			return own
		}
		return l.ServiceTime
	}
	total, weight := 0.0, 0.0
	for _, c := range sc.Clients {
		if len(c.Mix) == 0 {
			total += float64(of("").Mean)
			weight++
			continue
		}
		sum := 0.0
		for _, share := range c.Mix {
			sum += share.Share
		}
		for _, share := range c.Mix {
			total += share.Share / sum * float64(of(share.Class).Mean)
		}
		weight++
	}
	if weight == 0 {
		return l.ServiceTime.Mean
	}
	return time.Duration(total / weight)
}

// oracle is the goodput, after the warm-up, of a fluid that knows the
// capacity: in each step it serves what has come or waits, up to the capacity,
// and lets wait only what it can serve within the clients' patience.
func (sc Scenario) oracle(series []Step) float64 {
	patience := never
	for _, c := range sc.Clients {
		for _, d := range []time.Duration{c.Timeout, c.Deadline} {
			if d > 0 {
				patience = min(patience, d)
			}
		}
	}
	served, seconds, backlog := 0.0, 0.0, 0.0
	at := time.Duration(0)
	for _, st := range series {
		dt := (st.At - at).Seconds()
		capacity := sc.Capacity(at + (st.At-at)/2)
		backlog += float64(st.Offered) * sc.works(at)
		now := min(backlog, capacity*dt)
		backlog -= now
		if patience < never {
			backlog = min(backlog, capacity*patience.Seconds())
		}
		if at >= sc.Warmup {
			served += now
			seconds += dt
		}
		at = st.At
	}
	if seconds == 0 {
		return 0
	}
	return served / seconds
}
