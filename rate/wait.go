package rate

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
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
// it does nothing, but Use settles a cost that differs from n, within
// Config.MaxDebt.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := l.WaitN(ctx, n); err != nil {
		return weir.Permit{}, err
	}
	return weir.NewPermit((*owner)(l), weir.Grant{N: n}), nil
}

// owner keeps Use and Release, which a Permit calls, out of Limiter's methods.
type owner Limiter

func (o *owner) Use(g weir.Grant, n int) { (*Limiter)(o).settle(gcra.Promise{}, g.N, n) }

func (o *owner) Release(weir.Grant, weir.Outcome) {}

// Waiting returns how many wait.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Len()
}

// A waiter stands in line for a blocked WaitN.
type waiter struct {
	n        int
	deadline time.Duration // of its context and of Config.MaxWait
	place    *gcra.Waiter[*waiter]
	answer   chan error // of capacity one; whoever takes it out of the queue sends, once
}

// enter lets n events happen (nil, nil), refuses them (an error) or queues a
// waiter for them.
func (l *Limiter) enter(ctx context.Context, n int) (*waiter, error) {
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
	deadline, why := time.Duration(weir.Never), weir.OverRate
	if l.cfg.MaxWait > 0 {
		deadline = now + min(l.cfg.MaxWait, deadline-now)
	}
	if t, ok := ctx.Deadline(); ok {
		if at := s.at(t); at < deadline {
			deadline, why = at, weir.TooLate
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.load()
	now = max(now, s.since)
	if n > s.quota.Burst() {
		return nil, weir.Reject(weir.OverBurst, weir.Never)
	}
	l.serveLocked(s, now)
	if full := l.queue.Len() >= l.maxQueue(); full {
		deadline, why = now, weir.QueueFull
	}
	b, wait, ok := s.reserve(now, n, max(deadline-now, 0))
	switch {
	case !ok && l.maxQueue() == 0:
		return nil, weir.Reject(weir.OverRate, wait)
	case !ok:
		return nil, weir.Reject(why, wait)
	case wait == 0:
		return nil, nil
	}
	w := &waiter{n: n, deadline: deadline, answer: make(chan error, 1)}
	w.place = l.queue.Join(b, n, w)
	l.armLocked(s, now)
	return w, nil
}

func (l *Limiter) maxQueue() int {
	if l.cfg.Queue == 0 {
		return DefaultQueue
	}
	return max(l.cfg.Queue, 0)
}

// await blocks until w is answered or ctx ends.
//
// The answer cannot be lost, nor a token with it: a waiter is taken out of the
// queue, and its answer sent, under the lock. So if leave, under the same
// lock, finds w gone, the answer is already in the channel, and what it
// granted is given back.
func (l *Limiter) await(ctx context.Context, w *waiter) error {
	select {
	case err := <-w.answer:
		return err
	case <-ctx.Done():
		l.leave(w)
		return ctx.Err()
	}
}

// leave gives back what w waits for, or has been granted.
func (l *Limiter) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	now := s.now()
	refund, queued := l.queue.Cancel(&s.quota, now, w.place)
	switch {
	case queued:
		s.refund(refund)
		l.serveLocked(s, now)
	case <-w.answer == nil:
		l.giveBackLocked(s, now, gcra.Promise{}, w.n)
	}
}

// serveLocked answers all whose turn it is. It must follow every event that
// can bring a turn forward.
func (l *Limiter) serveLocked(s *state, now time.Duration) {
	for {
		w, ok := l.queue.Next(&s.quota, now)
		if !ok {
			break
		}
		w.answer <- nil
	}
	l.armLocked(s, now)
}

// armLocked sees to it that expire runs at the next turn. A timer that fires
// too early is left alone: expire arms it again.
func (l *Limiter) armLocked(s *state, now time.Duration) {
	at, ok := l.queue.Deadline(&s.quota)
	if !ok || l.armed && l.alarm <= at {
		return
	}
	l.armed, l.alarm = true, at
	if l.timer == nil {
		l.timer = time.AfterFunc(at-now, l.expire)
	} else {
		l.timer.Reset(at - now)
	}
}

func (l *Limiter) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	s := l.load()
	l.serveLocked(s, s.now())
}
