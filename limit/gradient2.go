package limit

import (
	"math"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// Netflix's parameters of Gradient2.
const (
	queue      = 4   // units that may queue
	tolerance  = 1.5 // an RTT up to this many times the long RTT shows no queue
	smoothing  = 0.2 // share of a change that is made
	longWindow = 600 // samples that the long RTT looks back
)

// NewGradient2 returns Gradient2, a comparator: use Auto. Gradient2 is Netflix's limit
// by the gradient of the RTT, as published. It compares each RTT with the long RTT, an
// average of many RTTs:
//
//	gradient = 1.5 · long RTT / RTT, brought into [0.5, 1]
//	L       += 0.2 · (gradient · L + 4 − L), brought into [Min, Max]
//
// So the limit is stable where (1 − gradient) · L = 4 units, which may queue. While less
// than half of L is in flight it stays. The long RTT is the mean of the first ten, then
// exponential, with weight 2 / 601 for each new one. Where it is more than twice the
// RTT, as after a long overload, it falls by 5 % a sample.
//
// Netflix runs it per window of samples. Config.MaxHealthyLatency has no effect, as
// Gradient2 takes dropped work for successful work.
//
// Known weaknesses, kept because this is the published algorithm:
//
//   - The long RTT follows the RTT. Under sustained overload it comes up to
//     it, the gradient goes to 1, and the limit climbs by 0.8 a sample,
//     to Max in the end (Netflix/concurrency-limits#137).
//   - Long before that, 4 is added whatever the gradient: at 0.8, a limit
//     below 20 still grows (#134).
//   - A drop counts as a success: work that fails quickly makes the limit grow
//     (#176).
//   - With the default Min, the limit is never less than 20.
//
// Source: github.com/Netflix/concurrency-limits, Gradient2Limit.java and
// ExpAvgMeasurement.java. It is not safe for concurrent use.
func NewGradient2(cfg Config) (Algorithm, error) {
	least := 20
	if cfg.Max > 0 {
		least = min(least, cfg.Max)
	}
	if err := cfg.fill(20, least, 200, math.MaxInt); err != nil {
		return nil, err
	}
	return &gradient2{cfg: cfg, limit: float64(cfg.Initial), long: average{weight: 2. / (longWindow + 1)}}, nil
}

type gradient2 struct {
	cfg   Config
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
	gradient := max(0.5, min(1, tolerance*g.long.value/rtt))
	was := g.Limit()
	next := g.limit*gradient + queue
	g.limit = g.cfg.within(g.limit*(1-smoothing) + next*smoothing)
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
