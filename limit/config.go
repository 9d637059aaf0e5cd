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
	// QuickLatency, of Auto, is a mean duration of work that need not be shorter; none
	// counts for more than four times the typical one. Up to it, Auto does not shorten the
	// queue in the service. By Little's law, throughput × QuickLatency units may be in
	// flight; in the long run, about four times as many as the service can work at, at most.
	// If zero, no queue is short enough. Auto ends a queue that costs throughput, and one
	// whose work becomes slow or fails. Several limiters of one service often do not notice
	// that it costs throughput: see docs/auto.md, "Its limits".
	QuickLatency time.Duration `json:"quick_latency,omitempty"`
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
	case c.QuickLatency < 0:
		return fmt.Errorf("limit: QuickLatency = %v: must be >= 0", c.QuickLatency)
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
