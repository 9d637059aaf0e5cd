package limit

import (
	"cmp"
	"fmt"
	"time"
)

// Config sets up an Auto, and is the common part of the other configurations. The
// zero value is usable.
type Config struct {
	Initial int `json:"initial,omitempty"` // units. If zero, 10 for Auto and 20 for the others, brought into [Min, Max]
	Min     int `json:"min,omitempty"`     // units, >= 1. If zero, 1; for Gradient2, 20 or Max
	Max     int `json:"max,omitempty"`     // units, >= Min. If zero, 10,000 for Auto, 200 for Gradient2, 1000 for the others, or Min
	// MaxHealthyLatency, if not zero, is the longest duration of healthy work, queues
	// included. Work that took longer counts as Dropped.
	MaxHealthyLatency time.Duration `json:"max_healthy_latency,omitempty"`
}

// fill sets the bounds that are zero to these defaults, lowers Max to most, and returns an
// error that names a field that is out of range.
func (c *Config) fill(initial, low, high, most int) error {
	c.Min = cmp.Or(c.Min, low)
	c.Max = min(cmp.Or(c.Max, max(high, c.Min)), most)
	c.Initial = cmp.Or(c.Initial, min(max(initial, c.Min), c.Max))
	switch {
	case c.Min < 1:
		return fmt.Errorf("limit: Min = %d: must be >= 1", c.Min)
	case c.Max < c.Min:
		return fmt.Errorf("limit: Max = %d: must be >= Min (%d)", c.Max, c.Min)
	case c.Initial < c.Min || c.Initial > c.Max:
		return fmt.Errorf("limit: Initial = %d: must be in [%d, %d]", c.Initial, c.Min, c.Max)
	case c.MaxHealthyLatency < 0:
		return fmt.Errorf("limit: MaxHealthyLatency = %v: must be >= 0", c.MaxHealthyLatency)
	}
	return nil
}

// slow reports whether work took longer than is healthy.
func (c *Config) slow(took time.Duration) bool {
	return c.MaxHealthyLatency > 0 && took > c.MaxHealthyLatency
}

// within brings a limit into the bounds.
func (c *Config) within(limit float64) float64 {
	return min(max(limit, float64(c.Min)), float64(c.Max))
}

// whole rounds a limit within the bounds down. As a float64, Max may be more than
// an int can hold.
func (c *Config) whole(limit float64) int {
	if limit >= float64(c.Max) {
		return c.Max
	}
	return int(limit)
}
