package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
)

// classes returns the classes of the clients' mixes; the first is "".
func (sc Scenario) classes() []string {
	classes := []string{""}
	for _, c := range sc.Clients {
		for _, share := range c.shares() {
			if !slices.Contains(classes, share.Class) {
				classes = append(classes, share.Class)
			}
		}
	}
	return classes
}

// used returns the classes of the clients' calls.
func (sc Scenario) used() map[string]bool {
	used := map[string]bool{}
	for i := range sc.Clients {
		for _, share := range sc.Clients[i].shares() {
			used[share.Class] = true
		}
	}
	return used
}

// timeouts returns the distribution of the time-outs.
func (c *Client) timeouts() dist.ServiceTime {
	return dist.ServiceTime{Mean: c.Timeout, Distribution: "lognormal", CV: c.TimeoutCV}
}

// patience returns the longest time after its arrival in which a call can succeed.
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

// An oracle is a fluid model that knows the capacity. It serves arrivals in order at the
// capacity, and rejects calls that it could not serve in time: calls that would flow out
// later than the client's patience less half of the duration of a call. Half, because
// calls in progress are half done on average: a call with its share of the fluid served
// after w is done after w + half of its duration. The oracle does not know which calls
// will fail: each counts with the probability that it does not.
type oracle struct {
	sc       *Scenario
	forecast *Forecast
	classes  []string
	patience []time.Duration // of the clients
	now      time.Duration
	until    time.Duration // nothing changes before; exclusive

	capacity float64
	works    [][]float64 // probability of a success, by client and class
	half     time.Duration

	backlog, served float64
}

func (o *oracle) init(sc *Scenario, classes []string) {
	o.sc, o.forecast, o.classes = sc, sc.Forecast(), classes
	for i := range sc.Clients {
		o.patience = append(o.patience, sc.Clients[i].patience())
		o.works = append(o.works, make([]float64, len(classes)))
	}
	o.updateCapacity()
}

// updateCapacity computes capacity, half and works as of now.
func (o *oracle) updateCapacity() {
	sc := o.sc
	o.capacity, o.half = o.forecast.Capacity(o.now), o.forecast.Work(o.now)/2
	states := sc.at(o.now)
	for class, name := range o.classes {
		works := sc.call(name, states).works
		for i := range sc.Clients {
			attempts := max(sc.Clients[i].Retry.Attempts, 1)
			o.works[i][class] = 1 - math.Pow(1-works, float64(attempts))
		}
	}
	o.until = never
	if sc.Warmup > o.now {
		o.until = sc.Warmup // served counts from then on
	}
	for i := range sc.Layers {
		l := &sc.Layers[i]
		o.until = min(o.until, l.Flap.next(o.now))
		for _, c := range l.Changes {
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
			o.updateCapacity()
		}
	}
}

func (o *oracle) arrive(c *call) {
	o.advance(c.intended)
	works, patience := o.works[c.client][c.class], o.patience[c.client]
	if cl := o.sc.Clients[c.client]; c.timeout != cl.Timeout {
		cl.Timeout = c.timeout
		patience = cl.patience()
	}
	if works > 0 && (patience == never || (o.backlog+works)/o.capacity <= (patience-o.half).Seconds()) {
		o.backlog += works
	}
}

// goodput returns the rate of calls served up to an instant.
func (o *oracle) goodput(at time.Duration) float64 {
	o.advance(at)
	if at <= o.sc.Warmup {
		return 0
	}
	return o.served / (at - o.sc.Warmup).Seconds()
}
