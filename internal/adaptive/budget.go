package adaptive

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// BudgetConfig sets up a Budget. The zero value is usable. See
// throttle.RetryConfig for Ratio and MinPerSecond.
type BudgetConfig struct {
	Ratio        float64 `json:"ratio,omitempty"`
	MinPerSecond float64 `json:"min_per_second,omitempty"`
	// Window is the time over which requests and retries count. A longer window
	// saves up more retries for a storm. If zero, 10 seconds.
	Window time.Duration `json:"window,omitempty"`
}

func (c BudgetConfig) withDefaults() BudgetConfig {
	return BudgetConfig{cmp.Or(c.Ratio, 0.1), cmp.Or(c.MinPerSecond, 1), cmp.Or(c.Window, 10*time.Second)}
}

// Validate returns an error that names the first field that is out of range.
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

// A Budget bounds the retries of a client: any window has at most Ratio·requests +
// MinPerSecond·Window of them. Without a budget, three attempts per request can treble the
// load of a backend that fails (Site Reliability Engineering, chapter 21, "Deciding to
// Retry"; the minimum and the window follow Finagle's RetryBudget).
//
// A retry is reserved before its backoff and settled after it, so that the
// retries that wait count against the budget, and abandoned retries do not.
//
// NewBudget makes a Budget; the zero value is not usable.
type Budget struct {
	ratio float64
	floor float64 // retries in a window
	ring  ring    // other: retries

	reserved int

	retried, exhausted uint64
}

// NewBudget returns a Budget, or the error of cfg.Validate.
func NewBudget(cfg BudgetConfig) (*Budget, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Budget{ratio: cfg.Ratio, floor: max(cfg.MinPerSecond, 0) * cfg.Window.Seconds(), ring: newRing(cfg.Window)}, nil
}

// Request counts the first attempt of a request.
func (b *Budget) Request(now time.Duration) { b.ring.request(now) }

// Retry spends one retry at once, and reports whether the budget allows it.
func (b *Budget) Retry(now time.Duration) bool {
	if !b.Reserve(now) {
		return false
	}
	b.Settle(now, true)
	return true
}

// Reserve sets one retry aside, and reports whether the budget allows it. The
// caller must Settle it.
func (b *Budget) Reserve(now time.Duration) bool {
	b.ring.advance(now)
	if float64(b.ring.sum.other+b.reserved+1) > b.allowed() {
		b.exhausted++
		return false
	}
	b.reserved++
	return true
}

// Settle spends a reserved retry if it is sent, and otherwise gives it back. A
// retry that was reserved is spent even if the window has advanced since and would
// no longer allow it.
func (b *Budget) Settle(now time.Duration, sent bool) {
	b.reserved--
	if sent {
		b.ring.add(now)
		b.retried++
	}
}

func (b *Budget) allowed() float64 { return b.ratio*float64(b.ring.sum.requests) + b.floor }

// BudgetStats are the state and the counts of a Budget. See throttle.RetryStats,
// which has the same fields.
type BudgetStats struct {
	Requests int
	Retries  int
	Allowed  int

	Retried   uint64
	Exhausted uint64
}

// Stats returns the state at now, and the counts.
func (b *Budget) Stats(now time.Duration) BudgetStats {
	b.ring.advance(now)
	return BudgetStats{Requests: b.ring.sum.requests, Retries: b.ring.sum.other,
		Allowed: int(min(b.allowed(), math.MaxInt32)), Retried: b.retried, Exhausted: b.exhausted}
}

// Backoff returns how long to wait before a retry; retry counts from 0. It is
// exponential with full jitter: u in [0, 1) selects an instant between 0 and
// base·2^retry, or most if that is less, so that clients that failed together do
// not retry together (Brooker, "Exponential Backoff And Jitter", AWS Architecture
// Blog, 2015). If base or most is zero or negative, there is no wait.
func Backoff(base, most time.Duration, retry int, u float64) time.Duration {
	base, longest, retry := max(base, 0), max(most, 0), max(retry, 0)
	if base <= longest>>retry { // so that base<<retry does not overflow
		longest = base << retry
	}
	return time.Duration(u * float64(longest))
}

// RetryConfig sets up retries: attempts, backoff and budget. See
// throttle.RetryConfig, which has the same fields.
type RetryConfig struct {
	Attempts     int
	Backoff      time.Duration
	MaxBackoff   time.Duration
	Ratio        float64
	MinPerSecond float64
}

// WithDefaults returns c with the defaults of its zero fields.
func (c RetryConfig) WithDefaults() RetryConfig {
	c.Attempts = cmp.Or(c.Attempts, 3)
	c.Backoff = cmp.Or(c.Backoff, 100*time.Millisecond)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, 10*time.Second)
	return c
}

// NewBudget returns the budget, or an error that names the first field of c that is out of
// range.
func (c RetryConfig) NewBudget() (*Budget, error) {
	if c.Attempts < 0 {
		return nil, fmt.Errorf("throttle: Attempts = %d: must be >= 0", c.Attempts)
	}
	return NewBudget(BudgetConfig{Ratio: c.Ratio, MinPerSecond: c.MinPerSecond})
}
