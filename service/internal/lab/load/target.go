package load

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Loopback returns an error if an address of the host of Target, or of one of Targets, is
// not a loopback address.
func (c Config) Loopback(ctx context.Context) error {
	checked := map[string]bool{}
	for _, target := range c.urls() {
		u, err := url.Parse(target)
		if err != nil {
			return fmt.Errorf("load: target = %q: %w", target, err)
		}
		if checked[u.Hostname()] {
			continue
		}
		checked[u.Hostname()] = true
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
		if err != nil {
			return fmt.Errorf("load: target = %q: %w", u.Redacted(), err)
		}
		for _, a := range addrs {
			if a = a.Unmap(); !a.IsLoopback() {
				return fmt.Errorf("load: target = %q: %v is not this machine", u.Redacted(), a)
			}
		}
	}
	return nil
}

// urls returns the absolute URLs of the targets.
func (c Config) urls() (all []string) {
	if c.Target != "" || len(c.Targets) == 0 {
		all = append(all, c.Target)
	}
	for _, t := range c.Targets {
		if strings.Contains(t.URL, "://") {
			all = append(all, t.URL)
		}
	}
	return all
}
