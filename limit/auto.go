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
	return auto{autolimit.New(autolimit.Config(cfg))}, nil
}

// auto is the control law with the types of this package.
type auto struct{ *autolimit.Auto }

var _ Controller = auto{}

func (auto) Tick() (time.Duration, bool)      { return 0, false }
func (a auto) Observe(s Sample) Cause         { return Cause(a.Auto.Observe((*autolimit.Sample)(&s))) }
func (a auto) Expire(now time.Duration) Cause { return Cause(a.Auto.Expire(now)) }

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
