package sla

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/lab/trace"
)

// The slow-down experiment: at the agreed rate, which is near the capacity, the
// upstream becomes twice as slow for a Phase.

// slowed are its rows: the best tuned one, and Auto.
var slowed = []string{"rate.Wait, 75 ms", Auto}

func (c Config) slowRows() (rows []Row) {
	for _, row := range c.rows() {
		if c.Phase > 0 && slices.Contains(slowed, row.Name) {
			rows = append(rows, row)
		}
	}
	return rows
}

func (c Config) slowdown() Slowdown { return Slowdown{c.Phase, 2 * c.Phase} }

// A Course is the result of a row in the slow-down, over time.
type Course struct {
	Row   string        `json:"row"`
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

// A diary records the answers of each step. It is safe for concurrent use.
type diary struct {
	phase time.Duration

	mu        sync.Mutex // guards what follows
	steps     [3 * stepsInPhase]Step
	latencies [3 * stepsInPhase][]time.Duration // of successes
}

func (d *diary) add(r trace.Record) {
	step := d.phase / stepsInPhase
	i := int(r.End / step)
	if i >= len(d.steps) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, rate := &d.steps[i], 1/step.Seconds()
	switch {
	case r.Success():
		s.Goodput += rate
		d.latencies[i] = append(d.latencies[i], r.Latency())
	case r.Rejected():
		s.Refused += rate
	default:
		s.Late += rate
	}
}

func (d *diary) course(row string) Course {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.steps {
		d.steps[i].P95 = quantiles(d.latencies[i]).P95
	}
	return Course{Row: row, Phase: d.phase, Step: d.phase / stepsInPhase, Steps: d.steps[:]}
}
