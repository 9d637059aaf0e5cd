package limit

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// NewAIMD returns AIMD, a comparator: use Auto. AIMD is additive increase,
// multiplicative decrease, TCP's way to find an unknown capacity (Chiu and Jain 1989;
// RFC 5681 section 3.1): the limit grows by one for each limit's worth of successes,
// about once per round trip, and falls to backoff times itself when work was dropped.
// Backoff is in (0, 1); if zero, 0.8.
//
// Three rules keep it from the usual traps:
//
//   - It backs off at most once per round trip: a drop counts only if its
//     work started after the last decrease (RFC 6582's recovery point), else
//     one burst of k failures would multiply by backoff^k. Successes from
//     before a decrease do not count towards growth either.
//   - It does not grow while less than half of the limit is in use (RFC 7661
//     for TCP): a limit that was not needed was not tested.
//   - A decrease always lowers the limit, down to Min, because it rounds down. (Rounded
//     up, 0.8 · 2 would stay 2 for ever.)
func NewAIMD(cfg Config, backoff float64) (Algorithm, error) {
	if err := cfg.fill(20, 1, 1000, math.MaxInt); err != nil {
		return nil, err
	}
	backoff = cmp.Or(backoff, 0.8)
	if !(backoff > 0 && backoff < 1) {
		return nil, fmt.Errorf("limit: backoff = %v: must be in (0, 1)", backoff)
	}
	return &aimd{cfg: cfg, backoff: backoff, limit: cfg.Initial, decreased: math.MinInt64}, nil
}

type aimd struct {
	cfg       Config
	backoff   float64
	limit     int
	successes int           // since the limit last moved
	decreased time.Duration // instant of the last decrease
}

func (a *aimd) Limit() int { return a.limit }

func (a *aimd) Observe(s Sample) Cause {
	result := outcome.Plain(s.Outcome)
	slow := result != weir.Ignored && a.cfg.slow(s.End-s.Start)
	switch {
	case s.Start < a.decreased:
		return Kept
	case result == weir.Dropped:
		return a.decrease(s.End, Dropped)
	case slow:
		return a.decrease(s.End, Slow)
	case result == weir.Success && 2*s.Inflight >= a.limit:
		return a.succeed()
	}
	return Kept
}

func (a *aimd) succeed() Cause {
	if a.limit == a.cfg.Max {
		return Kept
	}
	if a.successes++; a.successes < a.limit {
		return Kept
	}
	a.limit, a.successes = a.limit+1, 0
	return Grown
}

func (a *aimd) decrease(now time.Duration, why Cause) Cause {
	a.decreased, a.successes = now, 0
	if a.limit == a.cfg.Min {
		return Kept
	}
	a.limit = max(a.cfg.Min, int(float64(a.limit)*a.backoff))
	return why
}
