package rate

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/waitq"
)

// Wait waits until one event may happen; see WaitN.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN waits, in line with others, until n events may happen, and counts
// them. If ctx ends first, the error is the context's own, and nothing is
// counted. Otherwise the error is a *weir.Rejection, at once, of the Reason
//
//   - OverBurst if n exceeds the burst,
//   - TooLate if its turn would come after the deadline of ctx,
//   - OverRate if its turn would come after Config.MaxWait,
//   - QueueFull if as many wait as allowed.
//
// A waiter whose turn is put off beyond its deadline by a lower limit is told
// so at once. With a Limit of zero it waits for another one. It panics if
// n < 0.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	w, err := l.enter(ctx, n)
	if w == nil {
		return err
	}
	return l.await(ctx, w)
}

// Acquire waits as WaitN does. The Permit holds nothing in flight: releasing
// it does nothing, but Use settles a cost that differs from n, as Settle of a
// Reservation does.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := l.WaitN(ctx, n); err != nil {
		return weir.Permit{}, err
	}
	s := l.load()
	if s == &nothing { // n was 0
		return weir.Permit{}, nil
	}
	return weir.NewPermit(&s.owner, weir.Grant{N: l.held(n)}), nil
}

// held returns how many of n tokens just granted can be given back: without a
// limit, none are taken.
func (l *Limiter) held(n int) int {
	if l.load().quota.Unlimited() {
		return 0
	}
	return n
}

// owner keeps Use and Release, which a Permit calls, out of Limiter's methods.
type owner Limiter

func (o *owner) Use(g weir.Grant, n int) int { return (*Limiter)(o).settle(g.N, n) }

func (o *owner) Release(weir.Grant, weir.Outcome) {}

// Waiting returns how many wait.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line.Len()
}

// enter lets n events happen (nil, nil), refuses them (an error) or queues a
// waiter for them.
func (l *Limiter) enter(ctx context.Context, n int) (*waitq.Waiter, error) {
	if n < 0 {
		panic("rate: negative cost")
	}
	s := l.load()
	if n > s.burst && !s.quota.Unlimited() {
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
	l.line.Serve(&s.quota, now)
	if l.line.Len() >= l.maxQueue() {
		deadline, why = now, weir.QueueFull
	}
	b, wait, ok := s.reserve(now, n, waitq.Left(deadline, now))
	switch {
	case !ok && l.maxQueue() == 0:
		return nil, weir.Reject(weir.OverRate, wait)
	case !ok:
		return nil, weir.Reject(why, wait)
	case wait == 0:
		return nil, nil
	}
	w := l.line.Join(&s.quota, b, n, deadline, why, l.wake)
	l.line.Serve(&s.quota, now)
	return w, nil
}

func (l *Limiter) maxQueue() int {
	if l.cfg.Queue == 0 {
		return DefaultQueue
	}
	return max(l.cfg.Queue, 0)
}

// await blocks until w is answered or ctx ends.
func (l *Limiter) await(ctx context.Context, w *waitq.Waiter) error {
	return w.Await(ctx, l.wake, func() { l.leave(w) })
}

// leave gives back what w waits for, or has been granted.
func (l *Limiter) leave(w *waitq.Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	now := s.now()
	down, giveBack := l.line.Leave(&s.quota, now, w, s.load())
	s.lower(down)
	l.giveBackLocked(s, now, 0, 0, giveBack)
}

// wake serves the line at a turn.
func (l *Limiter) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	if early := s.since - time.Since(s.epoch); early > 0 { // SetLimitAt a time to come
		l.line.Snooze(early)
		return
	}
	l.line.Wake(&s.quota, s.now())
}
