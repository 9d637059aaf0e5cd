package sim

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weir-go/weir/internal/gate"
)

// A Result has the results of a run. Rates are per second of the time after the warm-up,
// latencies count from the intended start of a call.
type Result struct {
	Name     string        `json:"name"`
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"duration"`
	Warmup   time.Duration `json:"warmup"`

	Figures
	Oracle float64 `json:"oracle_rps"` // the goodput with perfect knowledge of the capacity
	Score  float64 `json:"score"`      // goodput / Oracle; 0 without an Oracle
	// Work is Score by worker time instead of calls: the worker time of the
	// successes, each class at its mean, / that of the oracle's. It differs from
	// Score if some classes get more of their calls served than others.
	Work       float64   `json:"work_score"`
	Rejections Quantiles `json:"rejections"` // durations of rejected attempts
	Jain       float64   `json:"jain"`       // of the tenants' shares: 1 = all have their fair share

	Clients []Figures `json:"clients,omitempty"` // if there are several
	Tenants []Figures `json:"tenants,omitempty"` // if there are several
	Classes []Figures `json:"classes,omitempty"` // if there are several
	Layers  []Visits  `json:"layers"`
	Totals  Totals    `json:"totals"`
	Series  []Step    `json:"series,omitempty"`
}

// Figures are the measurements of some calls.
type Figures struct {
	Name      string            `json:"name"`
	Offered   float64           `json:"offered_rps"`          // calls
	Goodput   float64           `json:"goodput_rps"`          // calls answered with success, in time
	Outcomes  map[string]uint64 `json:"outcomes"`             // of calls: ok, failed, overloaded, timeout, or a rejection's reason
	Latency   Quantiles         `json:"latency"`              // of successes
	FairShare float64           `json:"fair_share,omitempty"` // of a tenant: goodput / its max-min fair share of all goodput
}

// Quantiles of latencies, to 1 % or better. Without calls, they are zero.
type Quantiles struct {
	Count uint64        `json:"count"`
	Mean  time.Duration `json:"mean"`
	P50   time.Duration `json:"p50"`
	P95   time.Duration `json:"p95"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// Visits are the figures of a layer. Little's law is Inside = Throughput · Sojourn, with
// all three measured independently.
type Visits struct {
	Name       string            `json:"name"`
	Arrived    uint64            `json:"arrived"`
	Outcomes   map[string]uint64 `json:"outcomes"`        // of the jobs that left
	Throughput float64           `json:"throughput_rps"`  // of the jobs that left, served or not
	Sojourn    time.Duration     `json:"sojourn"`         // their mean
	Inside     float64           `json:"inside"`          // mean number at the guard, in the queue and at work
	Busy       float64           `json:"busy"`            // mean number of busy workers
	Unwanted   uint64            `json:"unwanted"`        // jobs that went on after their callers had left
	Guard      *gate.Stats       `json:"guard,omitempty"` // of the whole run; of several instances, the sums
	// Instances are the instances of the guard, if there are several. Jain is the
	// least of Jain's indices of the goodputs of equal instances.
	Instances []Replica `json:"instances,omitempty"`
	Jain      float64   `json:"instances_jain,omitempty"`
}

// Totals count over the whole run. Calls = the answers + Open.
type Totals struct {
	Calls      uint64 `json:"calls"`
	Attempts   uint64 `json:"attempts"`
	Good       uint64 `json:"good"`
	Failed     uint64 `json:"failed"`
	Overloaded uint64 `json:"overloaded"`
	TimedOut   uint64 `json:"timed_out"`
	Rejected   uint64 `json:"rejected"`
	Open       uint64 `json:"open"`   // calls without an answer at the end
	Inside     uint64 `json:"inside"` // jobs in the layers at the end
}

// A Step of the series has the counts since the previous step, and the state at its end.
type Step struct {
	At                                         time.Duration
	Offered, Attempts, Good, Refused, TimedOut uint32
	P50, P99                                   time.Duration // of successes; 0 if there were none
	Layers                                     []Point
}

// A Point is the state of a layer. Limit, Inflight and Waiting are zero
// without a guard, and sums over its instances.
type Point struct {
	Limit, Inflight, Waiting int   // of the guard
	Limits                   []int `json:",omitempty"` // of its instances, if there are several
	Busy, Queued             int   // of the station
}

// Unlimited is a mean limit above which there is none.
const Unlimited = 1e9

// MeanState returns the mean limit of a layer's guard, and the mean of what it has in
// flight, over the second half of the series.
func (r Result) MeanState(layer int) (limit, inflight float64) {
	half := r.Series[len(r.Series)/2:]
	for _, st := range half {
		limit += float64(st.Layers[layer].Limit) / float64(len(half))
		inflight += float64(st.Layers[layer].Inflight) / float64(len(half))
	}
	return limit, inflight
}

// Result returns the results so far.
func (s *Sim) Result() Result {
	m, sc := &s.meter, &s.scenario
	seconds := (s.now - sc.Warmup).Seconds()
	r := Result{
		Name: sc.Name, Seed: sc.Seed, Duration: sc.Duration, Warmup: sc.Warmup,
		Figures: m.all.figures(seconds), Series: m.series, Rejections: quantiles(m.rejections, -1),
	}
	r.Figures.Name = ""
	r.Oracle = m.oracle.goodput(s.now)
	if r.Oracle > 0 {
		r.Score = r.Goodput / r.Oracle
	}
	for i := range m.byClass {
		if len(m.byClass) > 1 && m.byClass[i].began > 0 {
			r.Classes = append(r.Classes, m.byClass[i].figures(seconds))
		}
	}
	r.Work = r.Score
	if len(r.Classes) > 1 && r.Oracle > 0 {
		got, cost := 0.0, m.oracle.forecast.costs() // calls of the mean worker time
		for _, f := range r.Classes {
			got += f.Goodput * cost[f.Name]
		}
		r.Work = got / r.Oracle
	}
	s.perClient(&r, seconds)
	for i := range s.layers {
		v := s.layers[i].visits(s.now, seconds)
		v.Instances, v.Jain = s.replicas(&s.layers[i])
		r.Layers = append(r.Layers, v)
	}
	a := m.answers
	r.Totals = Totals{
		Calls: m.calls, Attempts: m.attempts, Good: a[ok], Failed: a[failed], Overloaded: a[overloaded],
		TimedOut: a[timedOut], Rejected: a[rejected], Open: uint64(s.calls.inUse()), Inside: uint64(s.jobs.inUse()),
	}
	return r
}

func (s *Sim) perClient(r *Result, seconds float64) {
	var weights []float64
	m := &s.meter
	for i, tenants := range m.byTenant {
		client := part(&m.all, m.byClient, i)
		r.Clients = append(r.Clients, client.figures(seconds))
		for k := range tenants {
			f := part(client, tenants, k).figures(seconds)
			f.Name = tenants[k].name
			r.Tenants = append(r.Tenants, f)
			weights = append(weights, float64(max(s.scenario.Clients[i].Weight, 1)))
		}
	}
	r.Jain = fair(r.Tenants, weights)
	if len(r.Clients) == 1 {
		r.Clients = nil
	}
	if len(r.Tenants) == 1 {
		r.Tenants = nil
	}
}

func (t *tally) figures(seconds float64) Figures {
	f := Figures{Name: t.name, Outcomes: t.ended.outcomes(), Latency: quantiles(t.latency, t.sum)}
	if seconds > 0 {
		f.Offered = float64(t.began) / seconds
		f.Goodput = float64(t.ended[ok]) / seconds
	}
	return f
}

// quantiles computes the mean from the exact sum, unless that is negative.
func quantiles(h *hdrhistogram.Histogram, sum float64) Quantiles {
	if h == nil || h.TotalCount() == 0 {
		return Quantiles{}
	}
	n := h.TotalCount()
	mean := h.Mean()
	if sum >= 0 {
		mean = sum / float64(n)
	}
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return Quantiles{uint64(n), time.Duration(mean), at(50), at(95), at(99), time.Duration(h.Max())}
}

func (l *layer) visits(now time.Duration, seconds float64) Visits {
	f := l.flow // the integrals up to now, of a copy
	f.note(now)
	v := Visits{Name: l.cfg.Name, Arrived: f.arrived, Outcomes: f.left.outcomes(), Unwanted: f.unwanted}
	n := uint64(0)
	for _, k := range f.left {
		n += k
	}
	if n > 0 {
		v.Sojourn = time.Duration(f.sojourn / float64(n))
	}
	if seconds > 0 {
		v.Throughput = float64(n) / seconds
		v.Inside, v.Busy = f.area/seconds/1e9, f.busyArea/seconds/1e9
	}
	v.Guard = l.stats()
	return v
}

// jainIndex returns the fairness index of Jain, Chiu and Hawe (1984): (Σx)²/(n·Σx²);
// 0 if all are 0.
func jainIndex(xs []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range xs {
		sum, squares = sum+x, squares+x*x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(xs)) * squares)
}

// fair sets the FairShare of tenants and returns Jain's index of them. The fair shares are
// max-min: all goodput is distributed by weight, no tenant gets more than it offered, and
// the rest is distributed again.
func fair(tenants []Figures, weights []float64) float64 {
	pot := 0.0
	for i := range tenants {
		pot += tenants[i].Goodput
	}
	share := make([]float64, len(tenants))
	for pot > 1e-9 {
		hungry := 0.0
		for i := range tenants {
			if share[i] < tenants[i].Offered {
				hungry += weights[i]
			}
		}
		if hungry == 0 {
			break
		}
		deal := pot / hungry
		for i := range tenants {
			if want := tenants[i].Offered - share[i]; want > 0 {
				got := min(want, deal*weights[i])
				if share[i] += got; got == want {
					share[i] = tenants[i].Offered
				}
				pot -= got
			}
		}
	}
	var fairShares []float64
	for i := range tenants {
		if share[i] > 0 {
			tenants[i].FairShare = tenants[i].Goodput / share[i]
			fairShares = append(fairShares, tenants[i].FairShare)
		}
	}
	return jainIndex(fairShares)
}
