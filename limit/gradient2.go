package limit

import (
	"cmp"
	"fmt"
	"math"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// Gradient2Config sets up Gradient2. The zero value is usable; its defaults are
// Netflix's. MaxHealthyLatency has no effect, as Gradient2 takes dropped work for
// successful work.
type Gradient2Config struct {
	Config     `yaml:",inline"`
	Queue      int     `json:"queue,omitempty"`       // units that may queue, >= 1. If zero, 4
	Tolerance  float64 `json:"tolerance,omitempty"`   // an RTT up to Tolerance times the long RTT shows no queue, >= 1. If zero, 1.5
	Smoothing  float64 `json:"smoothing,omitempty"`   // share of a change that is made, in (0, 1]. If zero, 0.2
	LongWindow int     `json:"long_window,omitempty"` // samples that the long RTT looks back, >= 1. If zero, 600
}

// NewGradient2 returns Gradient2, a comparator: use Auto. Gradient2 is Netflix's limit
// by the gradient of the RTT, as published. It compares each RTT with the long RTT, an
// average of many RTTs:
//
//	gradient = Tolerance · long RTT / RTT, brought into [0.5, 1]
//	L       += Smoothing · (gradient · L + Queue − L), brought into [Min, Max]
//
// So the limit is stable where (1 − gradient) · L = Queue. While less than half of L is
// in flight it stays. The long RTT is the mean of the first ten, then exponential, with
// weight 2 / (LongWindow + 1) for each new one. Where it is more than twice the RTT, as
// after a long overload, it falls by 5 % a sample.
//
// Netflix runs it per window of samples; LongWindow then counts windows.
//
// Known weaknesses, kept because this is the published algorithm:
//
//   - The long RTT follows the RTT. Under sustained overload it comes up to
//     it, the gradient goes to 1, and the limit climbs by Smoothing · Queue a
//     sample, to Max in the end (Netflix/concurrency-limits#137).
//   - Long before that, Queue is added whatever the gradient: at 0.8, a limit
//     below 20 still grows (#134).
//   - A drop counts as a success: work that fails quickly makes the limit grow
//     (#176).
//   - With the default Min, the limit is never less than 20.
//
// Source: github.com/Netflix/concurrency-limits, Gradient2Limit.java and
// ExpAvgMeasurement.java. It is not safe for concurrent use.
func NewGradient2(cfg Gradient2Config) (Algorithm, error) {
	least := 20
	if cfg.Max > 0 {
		least = min(least, cfg.Max)
	}
	if err := cfg.fill(20, least, 200, math.MaxInt); err != nil {
		return nil, err
	}
	cfg.Queue, cfg.LongWindow = cmp.Or(cfg.Queue, 4), cmp.Or(cfg.LongWindow, 600)
	cfg.Tolerance, cfg.Smoothing = cmp.Or(cfg.Tolerance, 1.5), cmp.Or(cfg.Smoothing, 0.2)
	switch {
	case cfg.Queue < 1:
		return nil, fmt.Errorf("limit: Queue = %d: must be >= 1", cfg.Queue)
	case !(cfg.Tolerance >= 1):
		return nil, fmt.Errorf("limit: Tolerance = %v: must be >= 1", cfg.Tolerance)
	case !(cfg.Smoothing > 0 && cfg.Smoothing <= 1):
		return nil, fmt.Errorf("limit: Smoothing = %v: must be in (0, 1]", cfg.Smoothing)
	case cfg.LongWindow < 1:
		return nil, fmt.Errorf("limit: LongWindow = %d: must be >= 1", cfg.LongWindow)
	}
	long := average{weight: 2 / (float64(cfg.LongWindow) + 1)}
	return &gradient2{cfg: cfg, limit: float64(cfg.Initial), long: long}, nil
}

type gradient2 struct {
	cfg   Gradient2Config
	limit float64 // in [Min, Max]
	long  average // of RTTs, in nanoseconds
}

func (g *gradient2) Limit() int { return g.cfg.whole(g.limit) }

func (g *gradient2) Observe(s Sample) Cause {
	rtt := float64(s.End - s.Start)
	if outcome.Plain(s.Outcome) == weir.Ignored || rtt <= 0 {
		return Kept
	}
	g.long.add(rtt)
	if g.long.value > 2*rtt {
		g.long.value *= 0.95
	}
	if 2*float64(s.Inflight) < g.limit {
		return Kept
	}
	gradient := max(0.5, min(1, g.cfg.Tolerance*g.long.value/rtt))
	was := g.Limit()
	next := g.limit*gradient + float64(g.cfg.Queue)
	next = g.limit*(1-g.cfg.Smoothing) + next*g.cfg.Smoothing
	g.limit = g.cfg.within(next)
	switch is := g.Limit(); {
	case is > was:
		return Grown
	case is < was:
		return Queue
	}
	return Kept
}

// warmup is the number of samples after which an average is exponential.
const warmup = 10

// An average is the mean of its first samples, and then exponential.
type average struct {
	weight float64 // of a new sample
	value  float64
	sum    float64
	count  int // at most warmup
}

func (a *average) add(x float64) {
	if a.count < warmup {
		a.count++
		a.sum += x
		a.value = a.sum / float64(a.count)
		return
	}
	a.value += a.weight * (x - a.value)
}
