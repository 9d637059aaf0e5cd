package sla

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir/service/lab/internal/trace"
)

// The slow-down experiment: at the agreed rate, which is near the capacity, the
// upstream becomes twice as slow for a Phase.

// slowOffers returns an offer to each of its rows: the best tuned one, and Auto.
func (c Config) slowOffers() (offers []offer) {
	for _, row := range c.Rows {
		if c.Phase > 0 && row.slowed {
			offers = append(offers, offer{row: row, rate: c.Agreed.Rate, duration: 3 * c.Phase, slow: Slowdown{c.Phase, 2 * c.Phase}})
		}
	}
	return offers
}

// A Course is the result of a row in the slow-down, over time.
type Course struct {
	Row   string        `json:"row"`
	Rate  float64       `json:"rate"`
	Phase time.Duration `json:"phase"`
	Step  time.Duration `json:"step"`  // a tenth of it
	Steps []Step        `json:"steps"` // 30
}

// A Step is the answers within a Course.Step.
type Step struct {
	Goodput float64       `json:"goodput"` // successes a second
	P95     time.Duration `json:"p95"`     // of the successes; 0 if there were none
	Refused float64       `json:"refused"` // a second
	Late    float64       `json:"late"`    // time-outs, a second
}

const stepsInPhase = 10

// phase returns the steps of a phase: 0, 1 or 2. The first step, in which the upstream
// changes, is left out.
func (c Course) phase(i int) []Step { return c.Steps[i*stepsInPhase+1 : (i+1)*stepsInPhase] }

// Goodput returns the mean over a phase.
func (c Course) Goodput(phase int) float64 {
	sum := 0.0
	for _, s := range c.phase(phase) {
		sum += s.Goodput
	}
	return sum / (stepsInPhase - 1)
}

// P95 returns the highest P95 of a phase.
func (c Course) P95(phase int) time.Duration {
	return slices.MaxFunc(c.phase(phase), func(a, b Step) int { return cmp.Compare(a.P95, b.P95) }).P95
}

// course counts the answers to an offer in each step.
func course(o offer, answers []trace.Record) Course {
	phase := o.duration / 3
	c := Course{Row: o.row.Name, Rate: o.rate, Phase: phase, Step: phase / stepsInPhase, Steps: make([]Step, 3*stepsInPhase)}
	latencies := make([][]time.Duration, len(c.Steps)) // of successes
	rate := 1 / c.Step.Seconds()
	for _, r := range answers {
		i := int(r.End / c.Step)
		if i >= len(c.Steps) {
			continue
		}
		switch s := &c.Steps[i]; {
		case r.Success():
			s.Goodput += rate
			latencies[i] = append(latencies[i], r.Latency())
		case r.Rejected():
			s.Refused += rate
		default:
			s.Late += rate
		}
	}
	for i := range c.Steps {
		c.Steps[i].P95 = quantiles(latencies[i]).P95
	}
	return c
}
