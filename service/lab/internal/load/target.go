package load

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

// Loopback returns an error if an address of the host of Target, or of one of Targets, is
// not a loopback address.
func (c Config) Loopback(ctx context.Context) error {
	checked := map[string]bool{}
	all, err := c.urls()
	if err != nil {
		return err
	}
	for _, target := range all {
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
func (c Config) urls() (all []string, err error) {
	var base *url.URL
	if c.Target != "" || len(c.Targets) == 0 {
		all = append(all, c.Target)
		if base, err = url.Parse(c.Target); err != nil {
			return nil, fmt.Errorf("load: target = %q: %w", c.Target, err)
		}
	}
	for i, t := range c.Targets {
		u, err := absolute(t.URL, base)
		if err != nil {
			return nil, fmt.Errorf("load: targets[%d]: %w", i, err)
		}
		all = append(all, u)
	}
	return all, nil
}
