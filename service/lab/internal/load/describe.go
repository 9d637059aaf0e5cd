package load

import (
	"fmt"
	"net/url"
)

// Name returns the target without its secret.
func (c Config) Name() string {
	name := ""
	if u, err := url.Parse(c.Target); err == nil {
		name = u.Redacted()
	}
	switch {
	case len(c.Targets) == 1 && name == "":
		return c.Targets[0].URL
	case len(c.Targets) > 0:
		return fmt.Sprintf("%d targets, the first %s%s", len(c.Targets), name, c.Targets[0].URL)
	default:
		return name
	}
}

// String describes how the requests are sent.
func (c Config) String() string {
	rate := ""
	if c.Profile.Offers() {
		rate = c.Profile.String() + " per second"
		if c.Poisson {
			rate += fmt.Sprintf(", at random, seed %d", c.Seed)
		}
	}
	switch {
	case c.Workers == 0:
		return "open loop, " + rate
	case rate == "":
		return fmt.Sprintf("closed loop, %d workers, as fast as the answers come", c.Workers)
	default:
		return fmt.Sprintf("closed loop, %d workers, at most %s", c.Workers, rate)
	}
}
