package leafset

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/waitq"
)

// Wait takes n tokens of a key, and waits for them in the order of arrival at this Set, for
// at most maxWait (with a maxWait of zero: not at all) and until the deadline of ctx. If the
// step is leaf.Ask, the error is nil and the caller has no tokens: the upstream has to decide.
// Otherwise the caller has the tokens, or the error is a *weir.Rejection or that of ctx.
func (s *Set) Wait(ctx context.Context, key string, n int, maxWait time.Duration, p *leaf.Policy) (leaf.Step, error) {
	_, step, err := s.WaitWith(ctx, key, n, maxWait, p, nil)
	return step, err
}

// WaitWith is Wait. It also returns the Decision, and calls onWait, if that is not nil, when the
// caller has its place in the queue.
func (s *Set) WaitWith(ctx context.Context, key string, n int, maxWait time.Duration, p *leaf.Policy, onWait func()) (weir.Decision, leaf.Step, error) {
	if err := ctx.Err(); err != nil {
		return weir.Decision{}, leaf.Ask, err
	}
	now := s.now()
	if maxWait <= 0 {
		maxWait = -1
	}
	until, late := waitq.Within(ctx, s.epoch, now, maxWait)
	sh := s.shard(key)
	w := leaf.Waiter{}
	sh.mu.Lock()
	if sh.closed {
		sh.mu.Unlock()
		return weir.Decision{}, leaf.ByRule, weir.Reject(weir.Closed, 0)
	}
	wake := make(chan struct{}, 1)
	w.Wake = func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	d, step, why := sh.keys.Wait(now, key, n, until, p, &w)
	if d.OK || why != 0 || step == leaf.Ask {
		s.finish(sh, d.OK, step)
		return d, step, rejection(d, why, late)
	}
	tell := sh.tellLocked()
	sh.mu.Unlock()
	if tell {
		s.tell()
	}
	if onWait != nil {
		onWait()
	}
	return s.await(ctx, sh, &w, wake, d, late)
}

// await waits for the turn of a queued waiter.
//
// A turn cannot be missed: under the lock of the shard, each change that brings a turn
// forward sends on wake, which has room; and the timer is for the turn that was known when
// the waiter last had the lock.
func (s *Set) await(ctx context.Context, sh *shard, w *leaf.Waiter, wake chan struct{}, d weir.Decision, late weir.Reason) (weir.Decision, leaf.Step, error) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	timer := time.NewTimer(d.RetryAfter)
	defer timer.Stop()
	for {
		var left error
		select {
		case <-timer.C:
		case <-wake:
		case <-ctx.Done():
			left = ctx.Err()
		case <-s.closing.Done():
			left = weir.Reject(weir.Closed, 0)
		}
		sh.mu.Lock()
		if left != nil && left != context.DeadlineExceeded {
			sh.keys.Cancel(s.now(), w)
			sh.mu.Unlock()
			return weir.Decision{}, leaf.ByRule, left
		}
		d, step, why := sh.keys.Ready(s.now(), w)
		if left != nil && !d.OK {
			sh.keys.Cancel(s.now(), w)
		}
		if d.OK || why != 0 || left != nil || step == leaf.Ask {
			s.finish(sh, d.OK, step)
			if left != nil && !d.OK {
				return d, step, left
			}
			return d, step, rejection(d, why, late)
		}
		sh.mu.Unlock()
		timer.Reset(d.RetryAfter)
	}
}

// rejection returns the error for a Reason; late replaces weir.OverRate.
func rejection(d weir.Decision, why, late weir.Reason) error {
	switch why {
	case 0:
		return nil
	case weir.OverRate:
		why = late
	}
	return weir.Reject(why, d.RetryAfter)
}
