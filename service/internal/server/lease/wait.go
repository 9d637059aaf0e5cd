package lease

import (
	"context"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A Wait is the history of a request for a lease. After a change of the rules, a request
// that asks again comes before later requests, and the time that it has waited counts.
type Wait struct {
	Rules uint64 // the version of the rules by which the request asks

	moved bool          // a change of the rules has ended a wait
	spent time.Duration // in waits that a change of the rules has ended
	began time.Duration // when the request first asked, on the node's clock
}

// A waiter is a request that waits for a lease.
type waiter struct {
	key     string
	arrival uint64
	end     context.CancelCauseFunc
	overdue *time.Timer // nil if the bound of the limiter is right
}

// waitContext hides the deadline of a context from package inflight, which would
// take it for the deadline of the work.
type waitContext struct{ context.Context }

func (waitContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// wait waits for the units of a lease. Dismiss and Move end it through its own context,
// with waiting.ErrMoved or a rejection as the cause.
func (l *Limits) wait(ctx context.Context, b *bucket, h *holding, again *Wait) (weir.Permit, error) {
	own, end := context.WithCancelCause(ctx)
	defer end(nil)
	w := &waiter{key: h.Key, arrival: l.room.Arrival(), end: end}
	if err := l.enqueue(ctx, w, b, h.N, again); err != nil {
		return weir.Permit{}, err
	}
	if again.moved {
		own = weir.WithClass(own, weir.Class{Priority: weir.CriticalPlus})
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
	switch err := context.Cause(own); err {
	case errOverdue:
		return p, l.refuse(weir.Overdue, b.retryAfter(h.N))
	case waiting.ErrMoved:
		again.moved, again.spent = true, again.spent+time.Since(start)
		return p, err
	default:
		l.refused[err.(*weir.Rejection).Reason].Add(1)
		return p, err
	}
}

// errOverdue ends the wait of a request that has waited before.
var errOverdue = weir.Reject(weir.Overdue, 0)

// refuse counts a refusal.
func (l *Limits) refuse(why weir.Reason, retryAfter time.Duration) error {
	l.refused[why].Add(1)
	return weir.Reject(why, retryAfter)
}

// enqueue records that a request waits for n units, or returns why it may not.
func (l *Limits) enqueue(ctx context.Context, w *waiter, b *bucket, n int, again *Wait) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline, ok := ctx.Deadline()
	switch {
	case l.closed, again.Rules < l.rules:
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
	if again.moved && l.terms.MaxWait > 0 {
		w.overdue = time.AfterFunc(max(l.terms.MaxWait-again.spent, 1), func() { w.end(errOverdue) })
	}
	b.queued += n
	return nil
}

// dequeue ends an enqueue.
func (l *Limits) dequeue(w *waiter, b *bucket, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, w)
	if w.overdue != nil {
		w.overdue.Stop()
	}
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
