package sla

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/load"
)

// ErrTimeout reports that a call took longer than Setting.Timeout.
var ErrTimeout = errors.New("the upstream took too long")

// An Upstream is the service behind the service: a number of workers, each of which
// processes one call at a time, and an unbounded FIFO queue. It is safe for concurrent
// use.
//
// It computes the end of each call when the call arrives, so its capacity does not depend
// on the accuracy of timers.
type Upstream struct {
	epoch     time.Time
	work      dist.ServiceTime
	timeout   time.Duration
	abandoned bool
	slow      Slowdown

	mu   sync.Mutex // guards what follows
	rng  *rand.Rand
	free []time.Duration // when each worker becomes free
}

// A Slowdown makes work that begins between two instants take twice as long.
type Slowdown struct{ From, To time.Duration }

// upstream returns an idle Upstream.
func (c Config) upstream(slow Slowdown) *Upstream {
	return &Upstream{epoch: time.Now(), work: c.Setting.Work, timeout: c.Setting.Timeout, abandoned: c.Abandoned, slow: slow,
		rng: rand.New(rand.NewPCG(c.Seed, 0)), free: make([]time.Duration, c.Setting.Concurrency)}
}

// Call returns when the work is done. The error is ErrTimeout, or that of ctx. The
// upstream does not notice the end of ctx.
func (u *Upstream) Call(ctx context.Context) error {
	now := time.Since(u.epoch)
	end := u.plan(now)
	if err := load.Sleep(ctx, min(end-now, u.timeout)); err != nil {
		return err
	}
	if end > now+u.timeout {
		return ErrTimeout
	}
	return nil
}

// plan returns the time at which the work of a call that arrives now will be done.
func (u *Upstream) plan(now time.Duration) (end time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	first := 0
	for i, at := range u.free {
		if at < u.free[first] {
			first = i
		}
	}
	begin := max(u.free[first], now)
	if !u.abandoned && begin >= now+u.timeout {
		return begin + 1 // it leaves the queue before
	}
	work := u.work.Draw(u.rng)
	if begin >= u.slow.From && begin < u.slow.To {
		work *= 2
	}
	end = begin + work
	u.free[first] = end
	if !u.abandoned {
		u.free[first] = min(end, now+u.timeout)
	}
	return end
}
