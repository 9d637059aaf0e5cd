package load

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

// Loopback returns nil if every address of the target's host is this machine's
// own, and else an error that says which is not.
func Loopback(ctx context.Context, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return fmt.Errorf("load: target = %q: %w", target, err)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return fmt.Errorf("load: target = %q: %w", target, err)
	}
	for _, a := range addrs {
		if !a.Unmap().IsLoopback() {
			return fmt.Errorf("load: target = %q: %v is not this machine", target, a)
		}
	}
	return nil
}
