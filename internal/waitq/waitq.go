// Package waitq lets calls wait for their turn: first come, first served, with
// one timer for all of them, and without losing a wake-up or an answer.
//
// A limiter that lets calls wait has three problems: the order, the instant of the
// next turn, and the race between an answer and a caller that gives up. The
// owner of a Queue solves the first two under its own lock, in a serve method
// that takes the instant. It must follow every event that can bring a turn forward.
// The Queue solves the third.
//
// The pieces are usable on their own. Call is the blocking side of a single answer, and
// Timer the one timer. Tokens is the order of the calls that wait for tokens of one
// gcra.Bucket: it is pure, so a simulator can use it in virtual time. TokenQueue puts
// Tokens, Call and Timer together for package rate and package keyed.
package waitq

import (
	"container/list"
	"context"
	"errors"
	"sync"
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

// A Queue is the order of calls that wait for answers of type A, with a value of
// type W each for the owner, and one timer. The owner holds a lock around all
// methods but Await. The zero Queue is empty.
type Queue[W, A any] struct {
	list list.List // of *Waiter
	Timer
}

// A Waiter is a call in a Queue.
type Waiter[W, A any] struct {
	Value W
	place *list.Element // nil once it has left
	call  Call[A]
}

// Len returns the number of calls that wait.
func (q *Queue[W, A]) Len() int { return q.list.Len() }

// Join lets a call wait behind all others.
func (q *Queue[W, A]) Join(value W) *Waiter[W, A] {
	w := &Waiter[W, A]{Value: value, call: NewCall[A]()}
	w.place = q.list.PushBack(w)
	return w
}

// First returns the call that has waited longest, nil if there is none.
func (q *Queue[W, A]) First() *Waiter[W, A] { return value[*Waiter[W, A]](q.list.Front()) }

// Next returns the call behind w, nil if there is none.
func (w *Waiter[W, A]) Next() *Waiter[W, A] { return value[*Waiter[W, A]](w.place.Next()) }

// value returns the value of a list's element, zero if there is no element.
func value[T any](e *list.Element) (v T) {
	if e != nil {
		v = e.Value.(T)
	}
	return v
}

// remove takes a call out of the Queue, and reports whether it was there.
func (q *Queue[W, A]) remove(w *Waiter[W, A]) bool {
	if w.place == nil {
		return false
	}
	q.list.Remove(w.place)
	w.place = nil
	return true
}

// Answer takes a call out of the Queue and answers it. It reports false if the
// call has left the Queue before; then the answer is not delivered.
func (q *Queue[W, A]) Answer(w *Waiter[W, A], answer A) bool {
	if !q.remove(w) {
		return false
	}
	w.call.Answer(answer)
	return true
}

// Await blocks until the call w is answered, ctx ends or maxWait is over (if it
// is greater than zero), and returns the answer, or the error of ctx, or
// ErrOverdue. The lock is the owner's, which guards the Queue and which the
// caller does not hold.
//
// When time runs out, Await locks, calls serve, and takes w out of the Queue
// unless serve has answered it. When w has left the Queue unanswered, it calls
// serve again: the call behind it may be the first now. If ctx was cancelled,
// undo gets an answer that came all the same, without the lock.
func (q *Queue[W, A]) Await(ctx context.Context, w *Waiter[W, A], maxWait time.Duration, lock sync.Locker, serve func(), undo func(A)) (A, error) {
	return w.call.Await(ctx, maxWait, func(expired bool) bool {
		lock.Lock()
		defer lock.Unlock()
		if expired {
			serve()
		}
		left := q.remove(w)
		if left {
			serve()
		}
		return left
	}, undo)
}
