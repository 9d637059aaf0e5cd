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

func (s Stats) rejected() uint64 {
	return s.OverLimit + s.QueueFull + s.Evicted + s.Overdue + s.TooLate
}
