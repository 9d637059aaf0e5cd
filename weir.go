package weir

import (
	"context"
	"errors"
	"slices"

	"github.com/weir-go/weir/internal/neterr"
)

// A Limiter decides whether work may start, and waits until it may.
// Implementations are safe for concurrent use.
type Limiter interface {
	// Acquire asks for n units (n >= 0) and returns a Permit for them, which
	// the caller must release. Without a permit the error is a *Rejection or,
	// if ctx ended first, the context's own error, not wrapped.
	Acquire(ctx context.Context, n int) (Permit, error)
}

// Do runs fn under a permit for one unit of l and returns fn's error, or the
// reason why fn did not run. The permit is released with OutcomeOf of that
// error, with a variant of Ignored, "gone", if ctx was cancelled, or with Ignored
// if fn panics. The work must have ended when fn
// returns. If fn calls a service that goes on working after its caller has
// left, use Acquire and Permit.Abandon instead.
func Do(ctx context.Context, l Limiter, fn func(context.Context) error) error {
	p, err := l.Acquire(ctx, 1)
	if err != nil {
		return err
	}
	defer p.Release(Ignored)
	err = fn(ctx)
	p.Release(ended(ctx, err))
	return err
}

// DoValue is Do for a function that returns a value. If fn did not run, the
// value is the zero T.
func DoValue[T any](ctx context.Context, l Limiter, fn func(context.Context) (T, error)) (T, error) {
	p, err := l.Acquire(ctx, 1)
	if err != nil {
		var zero T
		return zero, err
	}
	defer p.Release(Ignored)
	v, err := fn(ctx)
	p.Release(ended(ctx, err))
	return v, err
}

// ended judges work that has ended under the context of its caller.
func ended(ctx context.Context, err error) Outcome {
	o := OutcomeOf(err)
	if o == Ignored && isCancelled(err) && ctx.Err() != nil {
		return gone
	}
	return o
}

// OutcomeOf judges work that has ended by its error:
//
//   - no error is Success;
//   - an error with a method Outcome() Outcome, like those of Outcome.Wrap, has that outcome;
//   - a rejection for lack of room further down (OverLimit, QueueFull,
//     Overdue, TooLate) is Dropped;
//   - any other rejection is Ignored, because it says nothing about load:
//     OverRate and OverBurst concern one user's quota;
//   - a missed deadline of a context is a variant of Dropped, "late";
//   - a refused connection and a time-out of I/O are Dropped;
//   - any other error, also of a cancelled context, is Ignored.
//
// See Permit.Abandon for work that may be going on.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Success
	}
	if j, ok := errors.AsType[interface {
		error
		Outcome() Outcome
	}](err); ok {
		return j.Outcome()
	}
	switch {
	case errors.Is(err, ErrRejected):
		r, ok := errors.AsType[*Rejection](err)
		if ok && !r.Reason.load() {
			return Ignored
		}
		return Dropped
	case errors.Is(err, context.DeadlineExceeded):
		return late
	case neterr.Refused(err), neterr.TimedOut(err):
		return Dropped
	default:
		return Ignored
	}
}

// Wrap returns err with the outcome o, for errors that OutcomeOf does not know. A database
// that has no connection left, for example, is Dropped, and a row that is not there may be
// Success. The text stays the same, and errors.Is and errors.As find err. Without an error it
// returns nil.
func (o Outcome) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return &judged{err, o}
}

// judged is an error of Outcome.Wrap.
type judged struct {
	error
	outcome Outcome
}

func (j *judged) Unwrap() error    { return j.error }
func (j *judged) Outcome() Outcome { return j.outcome }

func isCancelled(err error) bool { return errors.Is(err, context.Canceled) }

// Chain returns a Limiter that acquires from each of ls, in order, and releases
// in reverse. If one rejects the request, the earlier ones get their units back
// (a cost of 0, Ignored), and Acquire returns the rejection. Chain skips nil
// Limiters; an empty chain admits everything.
//
// Put the limiter that rejects at the least cost first: the rate, then the
// queue, then the concurrency.
func Chain(ls ...Limiter) Limiter {
	ls = slices.DeleteFunc(slices.Clone(ls), func(l Limiter) bool { return l == nil })
	if len(ls) == 1 {
		return ls[0]
	}
	return chain(ls)
}

type chain []Limiter

func (c chain) Acquire(ctx context.Context, n int) (Permit, error) {
	if len(c) == 0 {
		return Permit{}, nil
	}
	held := &links{permits: make([]Permit, 0, len(c))}
	held.owner = held
	all := false
	defer func() {
		if !all { // rejected, or a panic
			held.Use(Grant{}, 0) // a rate limit takes tokens back only for a cost of 0
			held.Release(Grant{}, Ignored)
		}
	}()
	for _, l := range c {
		p, err := l.Acquire(ctx, n)
		if err != nil {
			return Permit{}, err
		}
		held.permits = append(held.permits, p.Move())
	}
	all = true
	return OwnedPermit(&held.owner, Grant{N: n}), nil
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
