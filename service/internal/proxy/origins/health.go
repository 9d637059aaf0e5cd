package origins

import (
	"context"
	"io"
	"net/http"
	"time"
)

// A Health says how the health of origins is checked.
type Health struct {
	Path     string // if empty, it is not checked
	Interval time.Duration
}

// lookEvery is the longest time until a reload has an effect on health checks.
const lookEvery = time.Second

// CheckHealth checks the health of the origins, one after the other, until ctx ends. It calls how
// before each check, and at least every lookEvery, because a reload may change the Health.
func (s *Set) CheckHealth(ctx context.Context, how func() Health) {
	n := len(s.list)
	for next, last := 0, time.Duration(0); ; {
		h, now := how(), time.Since(s.epoch)
		wait := last + h.Interval/time.Duration(n) - now // each origin is checked once in an Interval
		switch {
		case h.Path == "":
			wait = lookEvery
			s.noteUnchecked(now) // every time: a check that began before the reload may have ended since
		case wait <= 0:
			go s.checkOrigin(ctx, next, h)
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
func (s *Set) checkOrigin(ctx context.Context, origin int, h Health) {
	ctx, cancel := context.WithTimeout(ctx, h.Interval)
	defer cancel()
	well := s.list[origin].isHealthy(ctx, h.Path)
	if context.Cause(ctx) != context.Canceled { // the proxy stops
		s.noteCheck(time.Since(s.epoch), origin, well)
	}
}

// isHealthy reports whether the origin answers a GET of a path with a status from 200 to 399.
func (o *Origin) isHealthy(ctx context.Context, path string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return false
	}
	o.Direct(req)
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
