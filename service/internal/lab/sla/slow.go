package sla

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weir-go/weir/service/internal/lab/trace"
)

// The slow-down experiment: at the agreed rate, which is near the capacity, the
// upstream becomes twice as slow for a Phase.

// slowed are its rows: the best tuned one, and Auto.
var slowed = []string{"rate.Wait, 75 ms", Auto}

func (c Config) slowRows() (rows []Row) {
	if c.Phase == 0 {
		return nil
	}
	for _, row := range c.rows() {
		for _, name := range slowed {
			if row.Name == name {
				rows = append(rows, row)
			}
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

// Goodput returns the mean over a phase: 0, 1 or 2. The first step, in which the
// upstream changes, is left out.
func (c Course) Goodput(phase int) float64 {
	sum := 0.0
	for _, s := range c.Steps[phase*stepsInPhase+1 : (phase+1)*stepsInPhase] {
		sum += s.Goodput
	}
	return sum / (stepsInPhase - 1)
}

// P95 returns the highest P95 of a phase after its first step.
func (c Course) P95(phase int) (most time.Duration) {
	for _, s := range c.Steps[phase*stepsInPhase+1 : (phase+1)*stepsInPhase] {
		most = max(most, s.P95)
	}
	return most
}

// A diary adds up a Course. It is safe for concurrent use.
type diary struct {
	course Course

	mu      sync.Mutex // guards what follows, and course.Steps
	latency []*hdrhistogram.Histogram
}

func (c Config) newDiary(row string) *diary {
	d := &diary{course: Course{Row: row, Phase: c.Phase, Step: c.Phase / stepsInPhase, Steps: make([]Step, 3*stepsInPhase)}}
	for range d.course.Steps {
		d.latency = append(d.latency, hdrhistogram.New(1, longest, 2))
	}
	return d
}

func (d *diary) add(r trace.Record) {
	i := int(r.End / d.course.Step)
	if i >= len(d.course.Steps) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.course.Steps[i]
	rate := 1 / d.course.Step.Seconds()
	switch {
	case r.Success():
		s.Goodput += rate
		note(d.latency[i], r.Latency())
		s.P95 = time.Duration(d.latency[i].ValueAtQuantile(95))
	case refused(r.Status):
		s.Refused += rate
	default:
		s.Late += rate
	}
}
