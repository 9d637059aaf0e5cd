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

// Validate returns an error that names the first field that is out of range.
func (c RetryConfig) Validate() error {
	if c.Attempts < 0 {
		return fmt.Errorf("throttle: Attempts = %d: must be >= 0", c.Attempts)
	}
	return c.budget().Validate()
}

func (c RetryConfig) budget() BudgetConfig {
	return BudgetConfig{Ratio: c.Ratio, MinPerSecond: c.MinPerSecond}
}

// NewBudget returns the budget, or the error of c.Validate.
func (c RetryConfig) NewBudget() (*Budget, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return NewBudget(c.budget())
}
