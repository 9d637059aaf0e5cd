package limit

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
)

// AIMDConfig sets up an AIMD. The zero value is usable.
type AIMDConfig struct {
	Initial int           `json:"initial,omitempty"` // units. If zero, 20 (brought into [Min, Max])
	Min     int           `json:"min,omitempty"`     // units, >= 1. If zero, 1
	Max     int           `json:"max,omitempty"`     // units, >= Min. If zero, 1000
	Backoff float64       `json:"backoff,omitempty"` // factor of a decrease, in (0, 1). If zero, 0.8
	Slow    time.Duration `json:"slow,omitempty"`    // work that took longer counts as Dropped. If zero, only outcomes count
}

func (c AIMDConfig) withDefaults() AIMDConfig {
	fillBounds(&c.Initial, &c.Min, &c.Max, 20, 1, 1000)
	if c.Backoff == 0 {
		c.Backoff = 0.8
	}
	return c
}

// Validate says which field is out of range, or returns nil.
func (c AIMDConfig) Validate() error {
	d := c.withDefaults()
	if err := checkBounds(d.Initial, d.Min, d.Max); err != nil {
		return err
	}
	switch {
	case !(d.Backoff > 0 && d.Backoff < 1):
		return fmt.Errorf("limit: Backoff = %v: must be in (0, 1)", c.Backoff)
	case d.Slow < 0:
		return fmt.Errorf("limit: Slow = %v: must be >= 0", c.Slow)
	}
	return nil
}

// AIMD is additive increase, multiplicative decrease, TCP's way to find a
// capacity that nobody tells (Chiu and Jain 1989; RFC 5681 section 3.1): the
// limit grows by one for each limit's worth of successes, about once per
// round trip, and falls to Backoff times itself when work was dropped.
//
// Three rules keep it from the usual traps:
//
//   - It backs off at most once per round trip: a drop counts only if its
//     work started after the last decrease (RFC 6582's recovery point), else
//     one burst of k failures would multiply by Backoff^k. Successes from
//     before a decrease do not count towards growth either.
//   - It does not grow while less than half of the limit is in use (RFC 7661
//     for TCP): a limit that was not needed was not tested.
//   - It always moves: a decrease rounds down, so it takes at least one unit
//     down to Min. (Rounded up, 0.8 · 2 would stay 2 for ever.)
type AIMD struct {
	cfg       AIMDConfig
	limit     int
	successes int           // since the limit last moved
	decreased time.Duration // instant of the last decrease
}

// NewAIMD returns an AIMD, or the error of cfg.Validate.
func NewAIMD(cfg AIMDConfig) (*AIMD, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &AIMD{cfg: cfg, limit: cfg.Initial, decreased: math.MinInt64}, nil
}

// Limit returns the units that may be in flight now.
func (a *AIMD) Limit() int { return a.limit }

// Observe learns from a sample.
func (a *AIMD) Observe(s Sample) Cause {
	outcome := judge(s.Outcome)
	slow := a.cfg.Slow > 0 && s.End-s.Start > a.cfg.Slow && outcome != weir.Ignored
	switch {
	case s.Start < a.decreased:
		return Kept
	case outcome == weir.Dropped:
		return a.decrease(s.End, Dropped)
	case slow:
		return a.decrease(s.End, Slow)
	case outcome == weir.Success && 2*s.Inflight >= a.limit:
		return a.succeed()
	}
	return Kept
}

func (a *AIMD) succeed() Cause {
	if a.limit == a.cfg.Max {
		return Kept
	}
	a.successes++
	if a.successes < a.limit {
		return Kept
	}
	a.limit++
	a.successes = 0
	return Grown
}

func (a *AIMD) decrease(now time.Duration, why Cause) Cause {
	a.decreased = now
	a.successes = 0
	if a.limit == a.cfg.Min {
		return Kept
	}
	a.limit = max(a.cfg.Min, int(float64(a.limit)*a.cfg.Backoff))
	return why
}
