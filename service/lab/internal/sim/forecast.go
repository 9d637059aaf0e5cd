package sim

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/service/lab/internal/pace"
)

// A Forecast computes the mean capacity of the layers of a scenario at each instant. It
// includes changes and flapping at that instant, and the average of pauses. It is safe
// for concurrent use.
type Forecast struct {
	sc      *Scenario
	classes []Share // of all calls
}

// Forecast returns the forecast of a valid scenario.
func (sc Scenario) Forecast() *Forecast {
	f := &Forecast{sc: &sc}
	total, weights := 0.0, make([]float64, len(sc.Clients))
	for i := range sc.Clients {
		weights[i] = sc.weight(&sc.Clients[i])
		total += weights[i]
	}
	for i := range sc.Clients {
		weight := weights[i] / total
		if !(total > 0) {
			weight = 1 / float64(len(sc.Clients))
		}
		for _, m := range sc.Clients[i].shares() {
			f.add(m.Class, weight*m.Share)
		}
	}
	return f
}

func (f *Forecast) add(class string, share float64) {
	i := slices.IndexFunc(f.classes, func(c Share) bool { return c.Class == class })
	if i < 0 {
		f.classes = append(f.classes, Share{class, share})
		return
	}
	f.classes[i].Share += share
}

// shares returns the mix of a client; the shares add up to 1.
func (c *Client) shares() []Share {
	if len(c.Recorded) > 0 {
		return c.recorded()
	}
	if len(c.Mix) == 0 {
		return []Share{{Share: 1}}
	}
	mix, sum := slices.Clone(c.Mix), 0.0
	for _, m := range mix {
		sum += m.Share
	}
	for i := range mix {
		mix[i].Share /= sum
	}
	return mix
}

// recorded returns the mix of a recording, in the order of the names.
func (c *Client) recorded() (mix []Share) {
	n := map[string]int{}
	for i := range c.Recorded {
		n[c.Recorded[i].Class]++
	}
	for _, name := range slices.Sorted(maps.Keys(n)) {
		mix = append(mix, Share{name, float64(n[name]) / float64(len(c.Recorded))})
	}
	return mix
}

// weight returns the mean rate of a client's calls over the run; that of a closed loop
// as if no call had to wait.
func (sc *Scenario) weight(c *Client) float64 {
	if len(sc.Clients) == 1 {
		return 1
	}
	if c.Users > 0 {
		round := c.Think.Mean
		for i := range sc.Layers {
			round += sc.Layers[i].ServiceTime.Mean
		}
		return float64(c.Users) / max(round, time.Millisecond).Seconds()
	}
	if n := len(c.Recorded); n > 0 {
		return float64(n) / sc.Duration.Seconds()
	}
	profile, err := pace.Parse(c.Rate)
	if err != nil {
		return 0
	}
	const points = 1000
	sum := 0.0
	for i := range points {
		sum += profile.Rate(sc.Duration / points * time.Duration(i))
	}
	return sum / points
}

// Capacity returns the highest rate of successful calls at an instant: the least over
// the layers of workers / the time for which a success holds them, including failures
// per success. It is infinite if no layer bounds it.
func (f *Forecast) Capacity(at time.Duration) float64 {
	capacity, _ := f.bound(at)
	return capacity
}

// bound returns the capacity, and the layer that bounds it.
func (f *Forecast) bound(at time.Duration) (capacity float64, layer int) {
	capacity = math.Inf(1)
	states := f.sc.at(at)
	own, hold := make([]float64, len(states)), make([]float64, len(states))
	works := 0.0
	for _, c := range f.classes {
		call := f.sc.call(c.Class, states)
		works += c.Share * call.works
		for i := range states {
			own[i] += c.Share * call.visits[i].own
			hold[i] += c.Share * call.visits[i].hold
		}
	}
	for i := range states {
		l := &f.sc.Layers[i]
		if l.Sharing {
			hold[i] = 0
		}
		if most := l.most(own[i], hold[i], states[i].workers) * works; most < capacity {
			capacity, layer = most, i
		}
	}
	return capacity, layer
}

// costs returns the worker time of a success of each class, at the layer that
// bounds the capacity when the run begins, / the mean over the successes of all
// classes.
func (f *Forecast) costs() map[string]float64 {
	_, layer := f.bound(0)
	states := f.sc.at(0)
	costs, total, works := map[string]float64{}, 0.0, 0.0
	for _, c := range f.classes {
		call := f.sc.call(c.Class, states)
		time := call.visits[layer].own
		if !f.sc.Layers[layer].Sharing {
			time += call.visits[layer].hold
		}
		costs[c.Class] = time / call.works
		total += c.Share * time
		works += c.Share * call.works
	}
	for class := range costs {
		if costs[class] *= works / total; total == 0 {
			costs[class] = 1
		}
	}
	return costs
}

// mean returns a mean over all calls, successful or not.
func (f *Forecast) mean(at time.Duration, of func(callCost) float64) (sum float64) {
	states := f.sc.at(at)
	for _, c := range f.classes {
		sum += c.Share * of(f.sc.call(c.Class, states))
	}
	return sum
}

// Works returns the share of attempts that do not fail for reasons other than load.
func (f *Forecast) Works(at time.Duration) float64 {
	return f.mean(at, func(c callCost) float64 { return c.works })
}

// Unloaded returns the duration of a call, successful or not, without other calls.
func (f *Forecast) Unloaded(at time.Duration) time.Duration {
	return span(f.mean(at, func(c callCost) float64 { return c.takes }) * 1e9)
}

// Work returns the duration of a success, except of streams, without other calls.
func (f *Forecast) Work(at time.Duration) time.Duration {
	total, sum, states := 0.0, 0.0, f.sc.at(at)
	for _, c := range f.classes {
		if call := f.sc.call(c.Class, states); !call.stream {
			total += c.Share * call.success
			sum += c.Share
		}
	}
	if sum == 0 {
		return 0
	}
	return span(total / sum * 1e9)
}

// most returns the highest rate of calls of a layer if each works for own seconds and
// holds a worker for another hold seconds.
func (l *Layer) most(own, hold float64, workers int) float64 {
	if own+hold == 0 || workers == 0 {
		return math.Inf(1)
	}
	running := l.running()
	if l.Contention == (Contention{}) {
		return float64(workers) / (own/running + hold)
	}
	best := 0.0
	for n := 1; n <= min(workers, 1_000_000); n++ {
		x := float64(n) / (own*l.Contention.Factor(n)/running + hold)
		if x < best/2 {
			break // past the knee
		}
		best = max(best, x)
	}
	return best
}

// running returns the share of the time without pauses.
func (l *Layer) running() float64 {
	if l.Pause.Every == 0 {
		return 1
	}
	return 1 - l.Pause.For.Seconds()/l.Pause.Every.Seconds()
}

// A layerState is a layer at an instant.
type layerState struct {
	workers  int
	slowdown float64
	faults   faults
	flapped  bool // faults do not occur at present
}

// at returns the states of the layers.
func (sc *Scenario) at(at time.Duration) []layerState {
	states := make([]layerState, len(sc.Layers))
	for i := range sc.Layers {
		l := &sc.Layers[i]
		st := layerState{l.Workers, 1, l.faults(), !l.Flap.on(at)}
		for k := range l.Changes {
			if c := &l.Changes[k]; c.At <= at {
				st.change(c)
			}
		}
		states[i] = st
	}
	return states
}
