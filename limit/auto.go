package limit

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/autolimit"
)

// NewAuto returns Auto: it finds the limit by itself, without a number from a user.
// docs/auto.md derives the control law.
func NewAuto(cfg Config) (Algorithm, error) {
	// A limit above MaxInt32 never binds, and would overflow.
	if err := cfg.fill(10, 1, 10_000, math.MaxInt32); err != nil {
		return nil, err
	}
	return auto{autolimit.New(autolimit.Config(cfg))}, nil
}

// auto is the control law with the types of this package.
type auto struct{ *autolimit.Auto }

func (a auto) Observe(s Sample) Cause         { return Cause(a.Auto.Observe((*autolimit.Sample)(&s))) }
func (a auto) Expire(now time.Duration) Cause { return Cause(a.Auto.Expire(now)) }
func (a auto) Evidence() Evidence             { return Evidence(a.Auto.Evidence()) }
