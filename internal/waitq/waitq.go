// Package waitq lets calls wait for their turn: first come, first served, with
// one timer for all of them, and without losing a wake-up or an answer.
//
// A limiter that lets calls wait has three problems: the order, the instant of the
// next turn, and the race between an answer and a caller that gives up. Its owner solves
// the first two under its own lock, by a serve method that follows every event that can
// bring a turn forward, and by a Timer. Call, the blocking side of a single answer, solves
// the third.
//
// Tokens is the order of the calls that wait for tokens of one gcra.Bucket: it is pure, so
// a simulator can use it in virtual time. TokenQueue puts Tokens, Call and Timer together
// for package rate and package keyed.
package waitq

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir"
)

// DefaultQueue is the bound on the number of waiters where a Config leaves it
// open.
const DefaultQueue = 1 << 16

// Bound returns the number of waiters that a Config's field Queue allows:
// DefaultQueue if it is zero, none if it is negative.
func Bound(queue int) int {
	if queue == 0 {
		return DefaultQueue
	}
	return max(queue, 0)
}

// ErrOverdue is the error of a call that has waited for its longest wait.
var ErrOverdue = errors.New("waitq: the longest wait is over")

// A Call is the blocking side of a wait for one answer. NewCall makes it.
type Call[A any] struct{ answer chan A }

// NewCall returns a Call that has no answer yet.
func NewCall[A any]() Call[A] { return Call[A]{make(chan A, 1)} }

// Answer answers the call. It must be called at most once, under the owner's
// lock, by the code that takes the call out of its queue.
func (c Call[A]) Answer(a A) { c.answer <- a }

// Await blocks until the call is answered, ctx ends or maxWait is over (if it is
// greater than zero). Unless the answer comes first, Await calls leave, which
// must take the call out of its queue under the owner's lock and report whether
// it was still there. If it was, the error is ctx.Err() or ErrOverdue.
//
// An answer that has come before leave still counts if time ran out: leave gets
// expired = true then, and should first answer all calls that have their turn, for
// the owner's timer may be the later of the two to fire. If ctx was cancelled,
// the answer goes to undo, outside of the lock, and the error is ctx.Err().
//
// The answer cannot be lost: under the owner's lock, a call leaves its queue and
// gets its answer, or leaves its queue and never gets one. The channel has room
// for the answer, so that the sender does not block. So if leave finds the call
// gone, the answer is already in the channel.
func (c Call[A]) Await(ctx context.Context, maxWait time.Duration, leave func(expired bool) bool, undo func(A)) (answer A, err error) {
	var over <-chan time.Time
	if maxWait > 0 && maxWait != weir.Never {
		timer := time.NewTimer(maxWait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case answer = <-c.answer:
		return answer, nil
	case <-over:
		err = ErrOverdue
	case <-ctx.Done():
		err = ctx.Err()
	}
	expired := err == ErrOverdue || err == context.DeadlineExceeded
	if leave(expired) {
		return answer, err
	}
	late := <-c.answer
	if expired {
		return late, nil
	}
	undo(late)
	return answer, err
}

// Sleep waits for d, and reports whether ctx is still live after it.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
