package proxy

import (
	"context"
	"time"

	"github.com/weir-go/weir"
)

// Drain makes /-/ready answer 503. The proxy goes on serving requests.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Idle returns when no exchange is in progress, long-lived ones included, or with
// ctx's error.
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
	r := s.Rejected
	return r[weir.OverLimit] + r[weir.QueueFull] + r[weir.Overdue] + r[weir.TooLate]
}
