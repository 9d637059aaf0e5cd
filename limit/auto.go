package limit

import (
	"maps"
	"math"
	"time"

	"github.com/weir-go/weir/internal/autolimit"
)

// NewAuto returns Auto: it finds the limit by itself, without a number from a user.
// docs/auto-proof.md derives the control law; docs/auto.md explains its evidence.
func NewAuto(cfg Config) (Algorithm, error) {
	// A limit above MaxInt32 never binds, and would overflow.
	if err := cfg.fill(10, 1, 10_000, math.MaxInt32); err != nil {
		return nil, err
	}
	return auto{autolimit.New(cfg.Initial, cfg.Min, cfg.Max, cfg.MaxHealthyLatency)}, nil
}

// law is the control law as a table: a branch, the cause that it tells, and the signal that leads to
// it. Shares of latency are elasticities.
var law = [autolimit.Branches]Cause{
	autolimit.RaiseBegins:   Throughput, // latency < 1.16 × baseline, or a slot of common raises; the limit is used
	autolimit.RaiseKept:     Throughput, // the share of the raise that became latency < 0.7
	autolimit.RaiseCut:      Queue,      // the same, but work takes longer, or the raise was a long one: a part is kept
	autolimit.RaiseRefused:  Queue,      // that share ≥ 0.7; or its late work > 0.1 + background
	autolimit.TrialUnused:   Idle,       // what is in flight has not followed the limit
	autolimit.TrimBegins:    Queue,      // no drain has proven the baseline, or the limiter is alone; it can be judged in 10 round trips
	autolimit.TrimKept:      Queue,      // the share of the trim that latency fell by > 0.5
	autolimit.TrimUndone:    Throughput, // that share ≤ 0.5
	autolimit.DrainBegins:   Drain,      // a slot of drains: the limit is used, or latency > 1.52 × baseline, or the last drain met a queue
	autolimit.DrainMetQueue: Queue,      // the share of the drain that latency fell by > 0.6
	autolimit.DrainQuiet:    Throughput, // that share ≤ 0.6, or too little was seen
	autolimit.FailuresCut:   Dropped,    // the failed share of a round > 0.1 + background, and > chance
	autolimit.SlowCut:       Slow,       // the same, and all of it took longer than MaxHealthyLatency
	autolimit.RefusalsCut:   Dropped,    // the elasticity of refusals ≥ 1.5: they begin above some number in flight
	autolimit.CutAcquitted:  Undone,     // the elasticity of failures under a cut < 0.5
	autolimit.CutUndone:     Undone,     // the failures are over, and the share of the cut that latency fell by < 0.7
	autolimit.Resumed:       Undone,     // a pause > 4 × latency, after failures
	autolimit.AtFloor:       Floor,
	autolimit.AtCeiling:     Ceiling,
}

// auto is the control law with the types of this package.
type auto struct{ *autolimit.Auto }

var _ Controller = auto{}

func (auto) Tick() (time.Duration, bool)      { return 0, false }
func (a auto) Observe(s Sample) Cause         { return law[a.Auto.Observe((*autolimit.Sample)(&s))] }
func (a auto) Expire(now time.Duration) Cause { return law[a.Auto.Expire(now)] }

// Evidence leaves out what is zero: it does not matter to the change.
func (a auto) Evidence() map[string]float64 {
	e := a.Auto.Evidence()
	all := map[string]float64{
		"latency": e.Latency.Seconds(), "reference": e.Reference.Seconds(), "baseline": e.Baseline.Seconds(),
		"elasticity": e.Elasticity, "error": e.Error, "failed": e.Failed, "background": e.Background,
		"samples": float64(e.Samples),
	}
	maps.DeleteFunc(all, func(_ string, v float64) bool { return v == 0 })
	return all
}
