package proxy

import (
	"context"
	"time"
)

// Drain makes /-/ready say no. Work in flight goes on, and so do requests that
// still come in.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Idle returns when no client waits for anything, long-lived exchanges included,
// or with ctx's error.
func (p *Proxy) Idle(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if p.serving.Load() == 0 && p.Stats().Waiting == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Summarize logs, once per period until ctx ends, what went wrong in it, if
// anything did: overload makes many rejections, and one line.
func (p *Proxy) Summarize(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	was := p.Stats()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		is := p.Stats()
		rejected := is.rejected() - was.rejected()
		dropped := is.Dropped - was.Dropped
		if rejected > 0 || dropped > 0 {
			p.log.Warn("overload", "period", period, "rejected", rejected, "dropped", dropped,
				"admitted", is.Admitted-was.Admitted, "limit", is.Limit, "inflight", is.Inflight,
				"waiting", is.Waiting, "abandoned", is.Abandoned)
		}
		was = is
	}
}

func (s Stats) rejected() uint64 {
	return s.OverLimit + s.QueueFull + s.Evicted + s.Overdue + s.TooLate
}
