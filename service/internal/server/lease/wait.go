package lease

import (
	"context"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A waiter is a request that waits for a lease.
type waiter struct {
	end   context.CancelCauseFunc
	holds bool // units of other rules
}

// waitContext hides the deadline of a context from package inflight, which would
// take it for the deadline of the work.
type waitContext struct{ context.Context }

func (waitContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// wait waits for the units of a lease. Dismiss and Update end it through its own
// context, with waiting.ErrMoved or a rejection as the cause.
func (l *Limits) wait(ctx context.Context, b *bucket, h *holding) (weir.Permit, error) {
	own, end := context.WithCancelCause(ctx)
	defer end(nil)
	w := &waiter{end, len(h.parts) > 0}
	if err := l.enqueue(ctx, w, b, h.N); err != nil {
		return weir.Permit{}, err
	}
	start := time.Now()
	p, err := b.limiter.Acquire(waitContext{own}, h.N)
	l.dequeue(w, b, h.N) // before a second attempt, which would count it as waiting ahead
	if err == nil {
		l.times.Add(time.Since(start))
		return p, nil
	}
	if rejected, ok := err.(*weir.Rejection); ok {
		return p, l.refuse(rejected.Reason, b.retryAfter(h.N))
	}
	if err := ctx.Err(); err != nil {
		l.cancelled.Add(1)
		return p, err
	}
	err = context.Cause(own)
	if rejected, ok := err.(*weir.Rejection); ok {
		l.refused[rejected.Reason].Add(1)
	}
	return p, err
}

// refuse counts a refusal.
func (l *Limits) refuse(why weir.Reason, retryAfter time.Duration) error {
	l.refused[why].Add(1)
	return weir.Reject(why, retryAfter)
}

// enqueue records that a request waits for n units, or returns why it may not.
func (l *Limits) enqueue(ctx context.Context, w *waiter, b *bucket, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline, ok := ctx.Deadline()
	switch {
	case l.closed:
		return waiting.ErrMoved
	case l.room.Closed(): // either this sees it, or Dismiss sees the waiter
		return l.refuse(weir.Closed, waiting.DrainRetry)
	case ok && b.waitLocked(b.queued) > time.Until(deadline):
		return l.refuse(weir.TooLate, b.waitLocked(b.queued+n))
	case !l.room.Enter():
		return l.refuse(weir.QueueFull, b.waitLocked(b.queued+n))
	}
	l.waiting.Add(1)
	l.waiters[w] = struct{}{}
	b.queued += n
	return nil
}

// dequeue ends an enqueue.
func (l *Limits) dequeue(w *waiter, b *bucket, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, w)
	b.queued -= n
	l.waiting.Add(-1)
	l.room.Leave()
}

// retryAfter estimates when n units may be available.
func (b *bucket) retryAfter(n int) time.Duration {
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	if n > maxLimit(b.limits.terms) {
		return weir.Never
	}
	return b.waitLocked(b.queued + n)
}

// waitLocked estimates, by Little's law, the time until a number of units have
// been returned; 0 if unknown.
func (b *bucket) waitLocked(units int) time.Duration {
	wait := float64(b.usual) * float64(units) / float64(max(b.limiter.State().Limit, 1))
	return time.Duration(min(wait, math.MaxInt64/2))
}
