package rate

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/permit"
	"github.com/weir-go/weir/internal/waitq"
)

// Wait waits until one event may happen; see WaitN.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN waits, behind the calls that came before, until n events may happen, and
// counts them. If ctx ends first, the error is the context's own, and nothing is
// counted. Otherwise the error is a *weir.Rejection, at once, of the Reason
//
//   - OverBurst if n exceeds the burst,
//   - TooLate if its turn would come after the deadline of ctx,
//   - OverRate if its turn would come after Config.MaxWait, or if no call waits,
//   - QueueFull if as many calls wait as allowed.
//
// If a lower limit puts the turn of a waiting call off beyond its deadline, the
// call is refused at once. With a Limit of zero it waits for another Limit. It
// panics if n < 0.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	w, err := l.enter(ctx, n)
	if w == nil {
		return err
	}
	return waitq.AwaitTokens(ctx, w, l.leave, func(n int) { l.settle(n, 0) })
}

// Acquire waits as WaitN does. The Permit holds nothing in flight: releasing
// it does nothing, but Use settles a cost that differs from n, as Settle does.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := l.WaitN(ctx, n); err != nil {
		return weir.Permit{}, err
	}
	s := l.load()
	if s == &nothing { // n was 0
		return weir.Permit{}, nil
	}
	if s.quota == gcra.Unlimited() {
		n = 0 // nothing was taken
	}
	return weir.OwnedPermit(&s.owner, permit.Grant{N: n}), nil
}

// owner keeps Use and Release, which a Permit calls, out of Limiter's methods.
type owner Limiter

func (o *owner) Use(g permit.Grant, n int) int { return (*Limiter)(o).settle(g.N, n) }

func (o *owner) Release(permit.Grant, weir.Outcome) {}

// enter lets n events happen (nil, nil), refuses them (an error) or queues a
// waiter for them.
func (l *Limiter) enter(ctx context.Context, n int) (*waitq.TokenWaiter, error) {
	if n < 0 {
		panic("rate: negative cost")
	}
	s := l.load()
	if n > s.burst && s.quota != gcra.Unlimited() {
		return nil, weir.Reject(weir.OverBurst, weir.Never)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := s.now()
	if l.allow(s, now, n) {
		return nil, nil
	}
	deadline, why := waitq.Within(ctx, s.epoch, now, l.cfg.MaxWait)

	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.load()
	now = max(now, s.since)
	if n > s.quota.Burst() {
		return nil, weir.Reject(weir.OverBurst, weir.Never)
	}
	l.queue.Serve(&s.quota, now)
	most := waitq.Bound(l.cfg.Queue)
	if l.queue.Len() >= most {
		deadline, why = now, weir.QueueFull
	}
	b, wait, ok := s.reserve(now, n, waitq.Left(deadline, now))
	switch {
	case !ok && most == 0:
		return nil, weir.Reject(weir.OverRate, wait)
	case !ok:
		return nil, weir.Reject(why, wait)
	case wait == 0:
		return nil, nil
	}
	l.queue.Wake = l.wake
	w := l.queue.Join(&s.quota, b, n, deadline, why)
	l.queue.Serve(&s.quota, now)
	return w, nil
}

func (l *Limiter) leave(w *waitq.TokenWaiter, expired bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	return l.queue.Leave(&s.quota, s.now(), w, expired, s)
}

// wake serves the queue at a turn.
func (l *Limiter) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	if early := s.since - time.Since(s.epoch); early > 0 { // SetLimitAt a time to come
		l.queue.Snooze(early)
		return
	}
	l.queue.Fired()
	l.queue.Serve(&s.quota, s.now())
}
