package adaptive

import (
	"cmp"
	"fmt"
	"time"
)

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
