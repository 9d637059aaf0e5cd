package proxy

import (
	"context"
	"io"
	"net/http"
	"time"
)

// A health says how the health of origins is checked.
type health struct {
	path     string // empty: it is not
	interval time.Duration
}

// lookEvery is the longest time until a reload has an effect on health checks.
const lookEvery = time.Second

// CheckOrigins checks the health of the origins until ctx ends, if there is a path for that.
func (p *Proxy) CheckOrigins(ctx context.Context) {
	n := len(p.origins.list)
	for next, last := 0, time.Duration(0); ; {
		h, now := p.plan.Load().health, p.now()
		wait := last + h.interval/time.Duration(n) - now // so that each origin has its turn in every interval
		switch {
		case h.path == "":
			wait = lookEvery
			p.origins.unchecked(now) // also what a check finds that began before a reload
		case wait <= 0:
			go p.checkOrigin(ctx, next, h)
			next, last = (next+1)%n, now
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(wait, lookEvery)):
		}
	}
}

// checkOrigin checks the health of an origin.
func (p *Proxy) checkOrigin(ctx context.Context, origin int, h health) {
	ctx, cancel := context.WithTimeout(ctx, h.interval)
	defer cancel()
	well := p.origins.list[origin].well(ctx, h.path)
	if context.Cause(ctx) != context.Canceled { // the proxy stops
		p.origins.checked(p.now(), origin, well)
	}
}

// well reports whether the origin answers a GET of a path with a status from 200 to 399.
func (o *originServer) well(ctx context.Context, path string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return false
	}
	o.direct(req)
	req.Host = o.url.Host
	req.Header.Set("User-Agent", "weir-health-check")
	resp, err := o.transport.RoundTrip(req)
	if err != nil {
		return false
	}
	const most = 64 << 10 // bytes of a body, so that the connection can be used again
	_, _ = io.CopyN(io.Discard, resp.Body, most)
	_ = resp.Body.Close()
	return resp.StatusCode >= 200 && resp.StatusCode < 400
}
