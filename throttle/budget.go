package throttle

import (
	"fmt"
	"math"
	"time"
)

// BudgetConfig sets up a Budget. The zero value is usable.
type BudgetConfig struct {
	// Ratio is the share of requests that may be retried, in (0, 1]. If zero,
	// 0.1.
	Ratio float64 `json:"ratio,omitempty"`
	// MinPerSecond is how many retries a second there may be besides, so that
	// a client with few requests can retry at all. It is granted by the
	// window: Window·MinPerSecond retries, at any time of it. If zero, 1; if
	// negative, none.
	MinPerSecond float64 `json:"min_per_second,omitempty"`
	// Window is how far back requests and retries count. A long one saves up
	// retries for a storm. If zero, 10 seconds.
	Window time.Duration `json:"window,omitempty"`
}

func (c BudgetConfig) withDefaults() BudgetConfig {
	if c.Ratio == 0 {
		c.Ratio = 0.1
	}
	if c.MinPerSecond == 0 {
		c.MinPerSecond = 1
	}
	if c.Window == 0 {
		c.Window = 10 * time.Second
	}
	return c
}

// Validate says which field is out of range, or returns nil.
func (c BudgetConfig) Validate() error {
	d := c.withDefaults()
	switch {
	case !(d.Ratio > 0 && d.Ratio <= 1):
		return fmt.Errorf("throttle: Ratio = %v: must be in (0, 1]", c.Ratio)
	case !(d.MinPerSecond <= math.MaxFloat64):
		return fmt.Errorf("throttle: MinPerSecond = %v: must be finite", c.MinPerSecond)
	case d.Window < 0:
		return fmt.Errorf("throttle: Window = %v: must be >= 0", c.Window)
	}
	return nil
}

// Budget bounds the retries of a client: in any window there are at most
//
//	Ratio·requests + MinPerSecond·Window
//
// of them. Retries alone then add a tenth to the load of a backend, however
// badly it fails; without a budget, three attempts for each request treble it
// (Site Reliability Engineering, chapter 21, "Deciding to Retry"; the floor
// and the window are those of Finagle's RetryBudget).
//
// It is not the token bucket of gRPC (proposal A6): a failure costs 1, a
// success pays 0.1, and anything may be retried while it is more than half
// full. That is a switch: while fewer than one in eleven fail, all are retried;
// while more do, none, although most retries would find a better task of the
// backend. And it has no clock: what was saved may be spent an hour later.
//
// An instant that is earlier than a previous one is taken as that previous
// one. NewBudget makes a Budget; the zero value is not usable.
type Budget struct {
	ratio float64
	floor float64 // retries in a window
	ring  ring    // other: retries

	retried, exhausted uint64
}

// NewBudget returns a Budget, or the error of cfg.Validate.
func NewBudget(cfg BudgetConfig) (*Budget, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Budget{
		ratio: cfg.Ratio,
		floor: max(cfg.MinPerSecond, 0) * cfg.Window.Seconds(),
		ring:  newRing(cfg.Window),
	}, nil
}

// Request is the first attempt of a request.
func (b *Budget) Request(now time.Duration) { b.ring.request(now) }

// Retry asks for another attempt, and reports whether there may be one. If so
// it is spent, used or not.
func (b *Budget) Retry(now time.Duration) bool {
	b.ring.advance(now)
	if float64(b.ring.sum.other+1) > b.allowed() {
		b.exhausted++
		return false
	}
	b.ring.add(now)
	b.retried++
	return true
}

func (b *Budget) allowed() float64 { return b.ratio*float64(b.ring.sum.requests) + b.floor }

// BudgetStats is the state and the counts of a Budget.
type BudgetStats struct {
	Requests int // in the window: first attempts
	Retries  int // in the window
	Allowed  int // in the window: what Retries may come to

	Retried   uint64 // since the beginning
	Exhausted uint64 // since the beginning: retries that there was no budget for
}

// Stats returns the state at now, and the counts.
func (b *Budget) Stats(now time.Duration) BudgetStats {
	b.ring.advance(now)
	return BudgetStats{Requests: b.ring.sum.requests, Retries: b.ring.sum.other,
		Allowed: int(min(b.allowed(), math.MaxInt32)), Retried: b.retried, Exhausted: b.exhausted}
}

// Backoff returns how long to wait before a retry; retry counts them from 0.
// It is exponential with full jitter: evenly distributed between nothing and
// base·2^retry, or most if that is less, as u is in [0, 1), so that clients
// that failed together do not come back together (Brooker, "Exponential Backoff
// And Jitter", AWS Architecture Blog, 2015). A base or most of zero or less
// means no wait.
func Backoff(base, most time.Duration, retry int, u float64) time.Duration {
	base, longest, retry := max(base, 0), max(most, 0), max(retry, 0)
	if base <= longest>>retry { // so that base<<retry does not overflow
		longest = base << retry
	}
	return time.Duration(u * float64(longest))
}
