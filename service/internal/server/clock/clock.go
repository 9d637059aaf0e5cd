// Package clock keeps the time of a node of the decision service.
package clock

import "time"

// A Clock measures time as a Duration since its epoch. Every instant inside a
// node is such a Duration; wall time appears only in ids and snapshots.
type Clock struct {
	epoch  time.Time
	manual *time.Duration // if not nil, the time
}

// New returns a Clock with the epoch now.
func New() *Clock { return &Clock{epoch: time.Now()} }

// Manual returns a Clock that shows the value of now, for a simulation. Timers do not heed
// it.
func Manual(now *time.Duration) *Clock { return ManualAt(time.Unix(0, 0), now) }

// ManualAt is Manual with another epoch than 1970.
func ManualAt(epoch time.Time, now *time.Duration) *Clock { return &Clock{epoch: epoch, manual: now} }

// Simulated reports whether the Clock is of Manual.
func (c *Clock) Simulated() bool { return c.manual != nil }

// Now returns the time since the epoch.
func (c *Clock) Now() time.Duration {
	if c.manual != nil {
		return *c.manual
	}
	return time.Since(c.epoch)
}

// At converts an instant that was read since the epoch. The zero Time stands for now.
func (c *Clock) At(t time.Time) time.Duration {
	if c.manual != nil || t.IsZero() {
		return c.Now()
	}
	return t.Sub(c.epoch)
}

// Time converts an instant for packages that take a time.Time.
func (c *Clock) Time(at time.Duration) time.Time { return c.epoch.Add(at) }

// Resume moves the epoch so that it is now the instant at. It must not be called
// concurrently with other methods.
func (c *Clock) Resume(at time.Duration) { c.epoch = time.Now().Add(-at) }
