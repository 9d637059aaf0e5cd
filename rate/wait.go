package rate

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/retrystep"
	"github.com/weir-go/weir/internal/waitq"
)

// Wait waits until one event may happen; see WaitN.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN waits, behind the calls that came before, until n events may happen, and
// counts them. If ctx ends first, the error is the context's own, and nothing is
// counted. Otherwise the error wraps a *weir.Rejection, at once, of the Reason
//
//   - OverBurst if n exceeds the burst,
//   - TooLate if its turn would come after the deadline of ctx,
//   - OverRate if its turn would come after Config.MaxWait, or if no call waits,
//   - QueueFull if as many calls wait as allowed.
//
// If a lower limit puts the turn of a waiting call off beyond its deadline, the
// call is refused at once. With a Limit of zero it waits for another Limit. It
// panics if n < 0.
//
// The text of the error begins as that of golang.org/x/time/rate, and has n, the burst and
// the time of the turn.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	w, refused, err := l.enter(ctx, n)
	if w != nil {
		err = l.await(ctx, w)
		if rejection, ok := err.(*weir.Rejection); ok {
			refused = *rejection
		}
	}
	if refused.Reason != 0 {
		return &refusal{refused, n, l.Burst()}
	}
	return err
}

// Acquire waits as WaitN does. A refusal allocates nothing: the error is a *weir.Rejection
// itself, and its RetryAfter is rounded up by less than a quarter. The Permit holds nothing in
// flight: releasing it does nothing, but Use settles a cost that differs from n, as Settle does.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	w, refused, err := l.enter(ctx, n)
	switch {
	case w != nil:
		err = l.await(ctx, w)
	case refused.Reason != 0:
		err = weir.Reject(refused.Reason, retrystep.Up(refused.RetryAfter))
	}
	if err != nil {
		return weir.Permit{}, err
	}
	s := l.load()
	if s == &nothing { // n was 0
		return weir.Permit{}, nil
	}
	if s.quota == gcra.Unlimited() {
		n = 0 // nothing was taken
	}
	return weir.OwnedPermit(&s.owner, weir.Grant{N: n}), nil
}

// await waits for the turn of a waiter.
func (l *Limiter) await(ctx context.Context, w *waitq.TokenWaiter) error {
	return waitq.AwaitTokens(ctx, w, l.leave, func(n int) { l.settle(n, 0) })
}

// owner keeps Use and Release, which a Permit calls, out of Limiter's methods.
type owner Limiter

func (o *owner) Use(g weir.Grant, n int) int { return (*Limiter)(o).settle(g.N, n) }

func (o *owner) Release(weir.Grant, weir.Outcome) {}

// enter lets n events happen, or queues a waiter for them, or refuses them, with a Reason. If ctx
// has ended, it returns the error of ctx.
func (l *Limiter) enter(ctx context.Context, n int) (w *waitq.TokenWaiter, refused weir.Rejection, err error) {
	if n < 0 {
		panic("rate: negative cost")
	}
	s := l.load()
	if n > s.burst && s.quota != gcra.Unlimited() {
		return nil, weir.Rejection{Reason: weir.OverBurst, RetryAfter: weir.Never}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, refused, err
	}
	now := s.now()
	if l.allow(s, now, n) {
		return nil, refused, nil
	}
	deadline, why := waitq.Within(ctx, s.epoch, now, l.cfg.MaxWait)

	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.load()
	now = max(now, s.since)
	if n > s.quota.Burst() {
		return nil, weir.Rejection{Reason: weir.OverBurst, RetryAfter: weir.Never}, nil
	}
	l.queue.Serve(&s.quota, now)
	most := waitq.Bound(l.cfg.Queue)
	if l.queue.Len() >= most {
		deadline, why = now, weir.QueueFull
	}
	b, wait, ok := s.reserve(now, n, waitq.Left(deadline, now))
	switch {
	case !ok && most == 0:
		return nil, weir.Rejection{Reason: weir.OverRate, RetryAfter: wait}, nil
	case !ok:
		return nil, weir.Rejection{Reason: why, RetryAfter: wait}, nil
	case wait == 0:
		return nil, refused, nil
	}
	l.queue.Wake = l.wake
	w = l.queue.Join(&s.quota, b, n, deadline, why)
	l.queue.Serve(&s.quota, now)
	return w, refused, nil
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
