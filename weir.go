// Package weir keeps a service's work at what the service can bear. It holds
// the six words that every limiter of this module shares: [Decision],
// [Limiter], [Permit], [Outcome], [Rejection], and limit.Sample, which the
// adaptive algorithms learn from.
//
// Everything rests on Little's law, N = X·R: the work in flight is the
// throughput times the response time. Bound X with a rate limit, N with a
// concurrency limit (package inflight), R with the queue in front of it.
//
//	permit, err := limiter.Acquire(ctx, 1)
//	if err != nil {
//		return err // a *Rejection, or the context's own error
//	}
//	defer permit.Release(weir.Ignored) // the first Release counts
//	err = work(ctx)
//	permit.Release(weir.OutcomeOf(err))
//
// That is what Do does.
package weir

import (
	"context"
	"errors"
	"slices"
)

// A Limiter says whether work may start, and waits for it where it must.
// Implementations are safe for concurrent use.
type Limiter interface {
	// Acquire asks for n units (n >= 0) and returns a Permit for them, which
	// the caller must release. Without a permit the error is a *Rejection or,
	// if ctx ended first, the context's own error, bare.
	Acquire(ctx context.Context, n int) (Permit, error)
}

// Do runs fn under a permit for one unit of l and returns fn's error, or the
// reason why fn did not run. The permit is released with OutcomeOf of that
// error; with Ignored if fn panics. The return of fn is the end of the work:
// after it, Do holds nothing. If fn calls a service that goes on working after
// its caller has left, use Acquire and CallOutcomeOf instead.
func Do(ctx context.Context, l Limiter, fn func(context.Context) error) error {
	p, err := l.Acquire(ctx, 1)
	if err != nil {
		return err
	}
	defer p.Release(Ignored)
	err = fn(ctx)
	p.Release(OutcomeOf(err))
	return err
}

// OutcomeOf judges work that has ended by its error:
//
//   - none is Success,
//   - a rejection by a concurrency limit or a queue further down (OverLimit,
//     QueueFull, Overdue, TooLate) is Dropped,
//   - any other rejection is Ignored: a quota (OverRate, OverBurst) is about one
//     user, Closed and Throttled say nothing new,
//   - a missed deadline is Late: the work has ended, but too late,
//   - all else says nothing about load and is Ignored, also a context that was
//     cancelled.
//
// See CallOutcomeOf for work that may be going on.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, ErrRejected):
		r, ok := errors.AsType[*Rejection](err)
		if ok && !r.Reason.load() {
			return Ignored
		}
		return Dropped
	case errors.Is(err, context.DeadlineExceeded):
		return Late
	default:
		return Ignored
	}
}

// CallOutcomeOf judges the call of a service by its error, as OutcomeOf does,
// but for a service that may go on working after its caller has left: a missed
// deadline is TimedOut, and a context that was cancelled is Left. A concurrency
// limit then keeps the units until the work could have ended.
func CallOutcomeOf(err error) Outcome {
	o := OutcomeOf(err)
	switch {
	case o == Late:
		return TimedOut
	case o == Ignored && errors.Is(err, context.Canceled):
		return Left
	}
	return o
}

// Chain returns a Limiter that acquires from every one of ls, in order, and
// releases in reverse. If one refuses, the earlier ones get their units back
// (a cost of 0, Ignored) and the refusal is returned: all or nothing. An empty
// chain admits everything.
//
// Put the cheapest refusal first: rate, then queue, then concurrency.
func Chain(ls ...Limiter) Limiter {
	return chain(slices.Clone(ls))
}

type chain []Limiter

func (c chain) Acquire(ctx context.Context, n int) (Permit, error) {
	held := &links{permits: make([]Permit, 0, len(c))}
	held.owner = held
	all := false
	defer func() {
		if !all { // refused, or a panic
			held.Use(Grant{}, 0) // a rate limit takes tokens back only for work that cost nothing
			held.Release(Grant{}, Ignored)
		}
	}()
	for _, l := range c {
		p, err := l.Acquire(ctx, n)
		if err != nil {
			return Permit{}, err
		}
		held.permits = append(held.permits, p)
	}
	all = true
	return NewPermit(&held.owner, Grant{N: n}), nil
}

// links owns the permit of a chain: the permits of its limiters, in the order
// of acquisition.
type links struct {
	owner   Owner // itself
	permits []Permit
}

func (ls *links) Use(_ Grant, n int) int {
	for i := range ls.permits {
		ls.permits[i].Use(n)
	}
	return n
}

func (ls *links) Report(g Grant, o Outcome) Grant {
	for i := range ls.permits {
		ls.permits[i].Report(o)
	}
	return g
}

func (ls *links) Release(_ Grant, o Outcome) {
	for i := len(ls.permits) - 1; i >= 0; i-- {
		ls.permits[i].Release(o)
	}
}
