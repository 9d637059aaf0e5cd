package sim

import (
	"cmp"
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

// used returns the classes of the clients' calls.
func (sc Scenario) used() map[string]bool {
	used := map[string]bool{}
	for _, c := range sc.Clients {
		if len(c.Mix) == 0 {
			used[""] = true
		}
		for _, share := range c.Mix {
			used[share.Class] = true
		}
	}
	return used
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
	running := l.running()
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

// running is the share of the time that is not in a pause.
func (l *Layer) running() float64 {
	if l.Pause.Every == 0 {
		return 1
	}
	return 1 - l.Pause.For.Seconds()/l.Pause.Every.Seconds()
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

// Unloaded is how long a call takes at an instant, on average, if nobody else
// is there. Changes up to then are taken in, and pauses on average.
func (sc Scenario) Unloaded(at time.Duration) time.Duration {
	total := 0.0
	for i := len(sc.Layers) - 1; i >= 0; i-- {
		l := &sc.Layers[i]
		total += sc.mean(l).Seconds() * l.at(at).slowdown / l.running()
		if i > 0 {
			total *= float64(max(sc.Layers[i-1].Calls, 1))
		}
	}
	return span(total * 1e9)
}

// patience is how long after its arrival a call can still be a success, at
// most.
func (c *Client) patience() time.Duration {
	whole := never
	if c.Timeout > 0 {
		whole = c.Timeout
		for n := range max(c.Retry.Attempts-1, 0) {
			most := cmp.Or(c.Retry.MaxBackoff, maxTime)
			wait := min(span(math.Ldexp(float64(c.Retry.Backoff), n)), most)
			whole += wait + c.Timeout
		}
	}
	if c.Deadline > 0 {
		whole = min(whole, c.Deadline)
	}
	return whole
}

// An oracle is a fluid that knows the capacity. It serves whatever has come, at
// the capacity, in order, and turns away what it could not serve in time: what
// would flow out later than the client's patience less half of the time that
// a call takes. Half, because what is at work has been there for half of its
// time, on average: a call whose share of the fluid flows out after w is done
// after w + half of its own time.
type oracle struct {
	sc       *Scenario
	patience []time.Duration // of the clients
	now      time.Duration
	until    time.Duration // nothing changes before; exclusive

	capacity float64
	works    float64 // share of calls that no random failure ends
	half     time.Duration

	backlog, served float64
}

func (o *oracle) init(sc *Scenario) {
	o.sc = sc
	for i := range sc.Clients {
		o.patience = append(o.patience, sc.Clients[i].patience())
	}
	o.look()
}

// look finds out about the capacity from now on.
func (o *oracle) look() {
	sc := o.sc
	o.capacity, o.works, o.half = sc.Capacity(o.now), sc.works(o.now), sc.Unloaded(o.now)/2
	o.until = never
	if sc.Warmup > o.now {
		o.until = sc.Warmup // served counts from then on
	}
	for i := range sc.Layers {
		for _, c := range sc.Layers[i].Changes {
			if c.At > o.now {
				o.until = min(o.until, c.At)
			}
		}
	}
}

func (o *oracle) advance(to time.Duration) {
	for o.now < to {
		next := min(to, o.until)
		out := min(o.backlog, o.capacity*(next-o.now).Seconds())
		o.backlog -= out
		if o.now >= o.sc.Warmup {
			o.served += out
		}
		if o.now = next; next == o.until {
			o.look()
		}
	}
}

func (o *oracle) arrive(client int32, at time.Duration) {
	o.advance(at)
	if patience := o.patience[client]; patience == never || (o.backlog+o.works)/o.capacity <= (patience-o.half).Seconds() {
		o.backlog += o.works
	}
}

// goodput is what was served per second, up to an instant.
func (o *oracle) goodput(at time.Duration) float64 {
	o.advance(at)
	if at <= o.sc.Warmup {
		return 0
	}
	return o.served / (at - o.sc.Warmup).Seconds()
}
