package sla

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrTimeout says that a call took longer than Timeout.
var ErrTimeout = errors.New("the upstream took too long")

// An Upstream is what the service calls: Workers that work on one call each,
// first come, first served, and a queue without bound. It is safe for
// concurrent use.
//
// It is a timetable: as soon as a call comes, it is known which worker is free
// first, and when. So what it can do does not depend on how late the timers of
// this machine are, only when its answers are noticed does.
type Upstream struct {
	epoch     time.Time
	abandoned bool
	slow      Slowdown

	mu   sync.Mutex // guards what follows
	rng  *rand.Rand
	free [Workers]time.Duration // when each worker will be
}

// A Slowdown makes work that begins between two instants take twice as long.
type Slowdown struct{ From, To time.Duration }

// NewUpstream returns an Upstream that nobody has called yet. If abandoned, it
// works on for callers that have given up.
func NewUpstream(seed uint64, abandoned bool, slow Slowdown) *Upstream {
	return &Upstream{epoch: time.Now(), abandoned: abandoned, slow: slow, rng: rand.New(rand.NewPCG(seed, 0))}
}

// Call returns when the work is done. The error is ErrTimeout or, if ctx ended
// before, the context's own; the upstream does not know of that.
func (u *Upstream) Call(ctx context.Context) error {
	now := time.Since(u.epoch)
	end := u.plan(now)
	var err error
	if end > now+Timeout {
		end, err = now+Timeout, ErrTimeout
	}
	timer := time.NewTimer(end - now)
	defer timer.Stop()
	select {
	case <-timer.C:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// plan returns when the work for a call that comes now will be done.
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
	if !u.abandoned && begin >= now+Timeout {
		return begin + 1 // it leaves the queue before
	}
	work := serviceTime().Draw(u.rng)
	if begin >= u.slow.From && begin < u.slow.To {
		work *= 2
	}
	end = begin + work
	u.free[first] = end
	if !u.abandoned {
		u.free[first] = min(end, now+Timeout)
	}
	return end
}
