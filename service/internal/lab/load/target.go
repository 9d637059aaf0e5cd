package load

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

// Loopback returns an error if an address of the target's host is not a loopback
// address.
func Loopback(ctx context.Context, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return fmt.Errorf("load: target = %q: %w", target, err)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return fmt.Errorf("load: target = %q: %w", u.Redacted(), err)
	}
	for _, a := range addrs {
		if a = a.Unmap(); !a.IsLoopback() {
			return fmt.Errorf("load: target = %q: %v is not this machine", u.Redacted(), a)
		}
	}
	return nil
}
