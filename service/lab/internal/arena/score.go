package arena

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/service/lab/internal/sim"
)

// components are the parts of a score, with their weights.
var components = []struct {
	name   string
	weight float64
	of     func(Cell) float64
}{
	{"goodput", 0.70, func(c Cell) float64 { return c.Goodput }},
	{"latency", 0.10, func(c Cell) float64 { return c.Latency }},
	{"recovery", 0.10, func(c Cell) float64 { return c.Recovery }},
	{"reject", 0.05, func(c Cell) float64 { return c.Reject }},
	{"fairness", 0.05, func(c Cell) float64 { return c.Fairness }},
}

// A Cell holds the results of a policy in a scenario. Each field is the mean over the
// seeds, unless its comment names another statistic.
type Cell struct {
	Policy string  `json:"policy"`
	Score  float64 `json:"score"` // the weighted sum of what follows, each in [0, 1]

	Goodput  float64 `json:"goodput"`  // share of the oracle's
	Latency  float64 `json:"latency"`  // 1 up to half the deadline, 0 at the deadline
	Recovery float64 `json:"recovery"` // 1 in time, 0 at four times that
	Reject   float64 `json:"reject"`   // 1 at once, 0 at the deadline
	Fairness float64 `json:"fairness"` // Jain's index

	// What they were made of.
	GoodputRPS  float64       `json:"goodput_rps"`
	OracleRPS   float64       `json:"oracle_rps"`
	WorstShare  float64       `json:"worst_goodput"` // of the seeds'
	P99         time.Duration `json:"p99"`           // of successes
	Deadline    time.Duration `json:"deadline"`
	Recovers    bool          `json:"recovers"`         // there is something to recover from
	RecoveredIn time.Duration `json:"recovered_in"`     // the slowest of the seeds'; never recovered: the time that was left
	Recovered   bool          `json:"recovered"`        // all of the seeds did
	InTime      time.Duration `json:"recovery_in_time"` // what is in time
	RejectP50   time.Duration `json:"reject_p50"`
	Limit       float64       `json:"limit"`                    // mean over the second half, summed over the instances; 0 without a guard
	Work        float64       `json:"work"`                     // goodput / oracle by worker time, not by calls: they differ between classes
	MeanLatency time.Duration `json:"mean_latency"`             // of successes
	Even        float64       `json:"instances_jain,omitempty"` // the worst Jain's index of the goodputs of equal instances; 0 without several
}

// P99Share is the p99 of successes / the deadline.
func (c Cell) P99Share() float64 { return c.P99.Seconds() / c.Deadline.Seconds() }

// score returns the figures of one run. Refused has the time that each call took that was
// not a success.
func (r *Row) score(res sim.Result, refused []time.Duration) Cell {
	c := Cell{
		GoodputRPS: res.Goodput, OracleRPS: res.Oracle, P99: res.Latency.P99, Deadline: r.deadline,
		Recovers: r.relief < never, Recovered: true, InTime: r.inTime(), RejectP50: median(refused),
		Fairness: res.Jain, Limit: limitOf(res), Work: res.Work, MeanLatency: res.Latency.Mean,
	}
	switch {
	case res.Oracle > 0 && r.Group == Street: // routes differ in cost: calls would count for most if only the cheap ones were served
		c.Goodput, c.Fairness = min(res.Work, 1), evenly(res.Classes)
	case res.Oracle > 0:
		c.Goodput = min(res.Goodput/res.Oracle, 1)
	}
	if i := slices.IndexFunc(res.Layers, func(l sim.Visits) bool { return len(l.Instances) > 1 }); i >= 0 {
		c.Even = res.Layers[i].Jain
	}
	c.WorstShare = c.Goodput
	if res.Latency.Count == 0 {
		c.P99 = r.deadline // at best
	}
	c.Latency = min(2*(1-share(c.P99, r.deadline)), 1)
	if c.Recovers {
		c.RecoveredIn, c.Recovered = recovery(res.Series, r.relief, r.forecast)
	}
	c.Recovery = recoveryScore(c.RecoveredIn, c.Recovered, c.InTime)
	c.Reject = 1 - share(c.RejectP50, r.deadline)
	c.total()
	return c
}

// evenly returns Jain's index of the shares of their calls that classes get served.
func evenly(classes []sim.Figures) float64 {
	sum, squares, n := 0.0, 0.0, 0.0
	for _, f := range classes {
		if f.Offered > 0 {
			x := f.Goodput / f.Offered
			sum, squares, n = sum+x, squares+x*x, n+1
		}
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (n * squares)
}

func (c *Cell) total() {
	c.Score = 0
	for _, p := range components {
		c.Score += p.weight * p.of(*c)
	}
}

// share is d / whole, brought into [0, 1].
func share(d, whole time.Duration) float64 {
	return min(max(d.Seconds()/whole.Seconds(), 0), 1)
}

func recoveryScore(took time.Duration, recovered bool, inTime time.Duration) float64 {
	if !recovered {
		return 0
	}
	return 1 - share(took-inTime, 3*inTime)
}

// inTime is how long a recovery may take: five seconds, or ten times what a
// call takes, the longer.
func (r *Row) inTime() time.Duration { return max(5*time.Second, 10*r.service) }

// The service has recovered at the beginning of the first recoveryWindow in which its
// goodput is recoveredShare of what it can do or, if that is less, of the offered calls
// that no fault ends.
const (
	recoveryWindow = 2 * time.Second
	recoveredShare = 0.95
)

// A forecast predicts, for an instant, the calls per second that a service can
// serve, and the share of calls that no fault ends.
type forecast interface {
	Capacity(at time.Duration) float64
	Works(at time.Duration) float64
}

// recovery returns how long after relief the service had recovered, or how
// long it had not when the series ended. forecast is a
// *sim.Forecast.
func recovery(series []sim.Step, relief time.Duration, forecast forecast) (took time.Duration, recovered bool) {
	before := time.Duration(0) // the end of the step before
	for i, first := range series {
		start := before
		before = first.At
		if start < relief {
			continue
		}
		offered, good, able := 0.0, 0.0, 0.0
		at := start
		for _, st := range series[i:] {
			offered += float64(st.Offered) * forecast.Works(at)
			good += float64(st.Good)
			able += forecast.Capacity(at) * (st.At - at).Seconds()
			if at = st.At; at >= start+recoveryWindow {
				break
			}
		}
		if at < start+recoveryWindow {
			return start - relief, false
		}
		if good >= recoveredShare*min(offered, able) {
			return start - relief, true
		}
	}
	return max(before-relief, 0), false
}

// median is 0 if there are none. It sorts.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// limitOf is the mean limit of the first guard over the second half of a run.
func limitOf(res sim.Result) float64 {
	for i := range res.Layers {
		if res.Layers[i].Guard == nil {
			continue
		}
		if limit, _ := res.MeanState(i); limit < sim.Unlimited {
			return limit
		}
	}
	return 0
}

// mean combines the cells of the seeds into one, as the comments on the fields of Cell
// say.
func mean(policy string, cells []Cell) Cell {
	m := cells[0]
	m.Policy = policy
	floats := func(c *Cell) []*float64 {
		return []*float64{&c.Goodput, &c.Latency, &c.Recovery, &c.Reject, &c.Fairness, &c.GoodputRPS, &c.OracleRPS, &c.Work, &c.Limit}
	}
	for i, x := range floats(&m) {
		*x = 0
		for k := range cells {
			*x += *floats(&cells[k])[i]
		}
		*x /= float64(len(cells))
	}
	durations := func(c *Cell) []*time.Duration { return []*time.Duration{&c.P99, &c.RejectP50, &c.MeanLatency} }
	for i, d := range durations(&m) {
		sum := 0.0
		for k := range cells {
			sum += float64(*durations(&cells[k])[i])
		}
		*d = time.Duration(math.Round(sum / float64(len(cells))))
	}
	for _, c := range cells {
		m.WorstShare = min(m.WorstShare, c.Goodput)
		m.Even = min(m.Even, c.Even)
		m.Recovered = m.Recovered && c.Recovered
		m.RecoveredIn = max(m.RecoveredIn, c.RecoveredIn)
	}
	m.total()
	return m
}
