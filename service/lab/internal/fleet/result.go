package fleet

import (
	"math"
	"time"
)

// A Result has the results of a run. Rates are per second. Overshoot is the excess
// of a window over burst + refill, as a part of the refill: the worst of all keys.
type Result struct {
	Name     string        `json:"name"`
	Policy   string        `json:"policy"`
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"duration"`
	Leaves   int           `json:"leaves"`
	Keys     int           `json:"keys"`
	Limit    float64       `json:"limit"`          // of all keys
	First    float64       `json:"limit_of_first"` // of the first of Scenario.Keys

	Total  Span `json:"total"`
	Steady Span `json:"steady"` // after the warm-up, until the first fault or change of demand
	// Fair is the fairness in the steady span.
	Fair   Fairness `json:"fair"`
	Jumps  []Jump   `json:"jumps,omitempty"`
	Faults []Faulty `json:"faults,omitempty"`
	Series []Step   `json:"series,omitempty"`
}

// A Span has the figures of a part of a run.
type Span struct {
	From    time.Duration `json:"from"`
	Until   time.Duration `json:"until"`
	Offered float64       `json:"offered_rps"`
	Allowed float64       `json:"allowed_rps"`
	// Use is the number of allowed requests / the number that the limits could have allowed.
	// WorstUse is the least of a key of which at least 100 could have been allowed.
	Use      float64 `json:"use"`
	WorstUse float64 `json:"worst_use"`
	// Over1 and Over10 are the worst overshoot in windows of 1 s and of 10 s, MeanOver1 the
	// mean of all windows of 1 s and keys.
	Over1     float64            `json:"over_1s"`
	Over10    float64            `json:"over_10s"`
	MeanOver1 float64            `json:"mean_over_1s"`
	Exchanges float64            `json:"exchanges_rps"`
	Reports   float64            `json:"reports_rps"`
	Decisions map[string]float64 `json:"decisions"` // the part of each step
}

// A Fairness compares what leaves were allowed with max-min fair shares of what they
// offered.
type Fairness struct {
	// Worst is the largest deviation of a leaf from its share, as a part of it, of leaves
	// with a share of at least 100 tokens. Mean is the sum of the deviations / the sum of shares.
	Worst float64 `json:"worst"`
	Mean  float64 `json:"mean"`
}

// A Jump is a demand that has grown at one leaf.
type Jump struct {
	At    time.Duration `json:"at"`
	Leaf  int           `json:"leaf"`
	Key   string        `json:"key"`
	Share float64       `json:"share"` // fair share after it, in tokens a second
	// Served is the time from which on the leaf is allowed 90 % of its share, in each of four
	// half seconds; -1 if that is not within 30 s.
	Served time.Duration `json:"served"`
}

// A Faulty is a fault, with the figures of its time and of windows up to 10 s after it.
type Faulty struct {
	Kind string `json:"kind"`
	Span
}

// Rates are rates of requests.
type Rates struct {
	Offered float64 `json:"offered"`
	Allowed float64 `json:"allowed"`
}

// A Step of the series has rates since the previous step, and the worst overshoot.
type Step struct {
	At        time.Duration      `json:"at"`
	Offered   float64            `json:"offered"`
	Allowed   float64            `json:"allowed"`
	First     Rates              `json:"first"` // of the first of Scenario.Keys
	Short     float64            `json:"over_1s"`
	Long      float64            `json:"over_10s"`
	Exchanges float64            `json:"exchanges"`
	Reports   float64            `json:"reports"`
	Failures  float64            `json:"failures"` // exchanges without an answer
	Asks      float64            `json:"asks"`     // decisions by the upstream, of keys without an assignment
	Decisions map[string]float64 `json:"decisions"`
	Leaves    int                `json:"leaves"` // that run
	Watch     []Watched          `json:"watch,omitempty"`
}

// A Watched is the use of the first key by one leaf.
type Watched struct {
	Rates
	Share *float64 `json:"share,omitempty"` // the rate that it may use at the end of the step
	Fair  float64  `json:"fair"`            // its max-min fair share
}

// Result returns the results so far.
func (s *Sim) Result() Result {
	m := &s.meter
	r := Result{
		Name: s.sc.Name, Policy: s.sc.Fleet.Policy, Seed: s.sc.Seed, Duration: s.sc.Duration,
		Leaves: len(s.leaves), Keys: len(s.keys), Series: m.series,
		Total: m.spans[0].figures(m), Steady: m.spans[1].figures(m), Fair: m.fairness(len(s.leaves)),
	}
	for i, k := range s.keys {
		r.Limit += k.rate
		if i < m.firsts {
			r.First += k.rate
		}
	}
	for i, f := range s.sc.Faults {
		r.Faults = append(r.Faults, Faulty{f.Kind, m.spans[i+2].figures(m)})
	}
	for i := range m.jumps {
		r.Jumps = append(r.Jumps, m.jumps[i].result())
	}
	return r
}

// figures returns the figures of a span.
func (sp *span) figures(m *meter) Span {
	f := Span{From: sp.from, Until: sp.until, Over1: sp.short, Over10: sp.long, WorstUse: 1, Decisions: map[string]float64{}}
	seconds := float64(sp.slots) * slot.Seconds()
	if seconds == 0 {
		return f
	}
	possible := 0.0
	for k, limit := range m.keys {
		could := min(limit.rate*seconds, float64(sp.offered[k]))
		possible += could
		f.Offered += float64(sp.offered[k]) / seconds
		f.Allowed += float64(sp.allowed[k]) / seconds
		if could >= 100 {
			f.WorstUse = min(f.WorstUse, float64(sp.allowed[k])/could)
		}
	}
	if possible > 0 {
		f.Use = f.Allowed * seconds / possible
	}
	f.MeanOver1 = sp.excess / float64(sp.windows)
	f.Exchanges, f.Reports = float64(sp.exchanges)/seconds, float64(sp.reports)/seconds
	total := 0
	for _, n := range sp.steps {
		total += n
	}
	for i, n := range sp.steps {
		if n > 0 {
			f.Decisions[Steps[i]] = float64(n) / float64(total)
		}
	}
	return f
}

// fairness compares the leaves' use in the steady span with their shares.
func (m *meter) fairness(leaves int) (f Fairness) {
	sp := &m.spans[1]
	sum, off := 0.0, 0.0
	offered := make([]float64, leaves)
	for k, limit := range m.keys {
		capacity := limit.rate * float64(sp.slots) * slot.Seconds()
		for i := range offered {
			offered[i] = float64(m.byLeaf[i*len(m.keys)+k].offered)
		}
		most := level(offered, capacity)
		for i, want := range offered {
			share := min(want, most)
			deviation := math.Abs(float64(m.byLeaf[i*len(m.keys)+k].allowed) - share)
			sum += share
			off += deviation
			if share >= 100 {
				f.Worst = max(f.Worst, deviation/share)
			}
		}
	}
	if sum > 0 {
		f.Mean = off / sum
	}
	return f
}

// result finds the instant from which the leaf has had its share. The tokens of a bucket
// serve a jump for a moment, so four half seconds in a row must have it.
func (j *jump) result() Jump {
	const half, lasting = int(500 * time.Millisecond / slot), 4
	sums := []int{0} // of the slots before each
	for _, n := range j.counts {
		sums = append(sums, sums[len(sums)-1]+int(n))
	}
	r := j.Jump
	r.Served = -1
	for i := 0; i+lasting*half < len(sums); i++ {
		enough := true
		for k := range lasting {
			enough = enough && float64(sums[i+(k+1)*half]-sums[i+k*half]) >= 0.9*r.Share*0.5
		}
		if enough {
			r.Served = time.Duration(i) * slot
			break
		}
	}
	return r
}

// shares returns the max-min fair shares of the leaves of a key, by their present rates.
func (s *Sim) shares(key int32) []float64 {
	wants := make([]float64, len(s.leaves))
	for i := range wants {
		if s.leaves[i].node == nil {
			continue
		}
		for _, l := range s.loads {
			wants[i] += l.rate(i, key)
		}
	}
	most := level(wants, s.keys[key].rate)
	for i := range wants {
		wants[i] = min(wants[i], most)
	}
	return wants
}
