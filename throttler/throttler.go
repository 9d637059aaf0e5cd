// Package throttler keeps a client from making a backend's overload worse. Its
// Limiter refuses requests locally once the backend has refused too many; its
// Retrier retries no more than a share of them. Both are a clock, chance and a
// lock around package throttle.
//
//	lim, err := throttler.New(throttle.AdaptiveConfig{})
//	retrier, err := throttler.NewRetrier(throttler.RetryConfig{})
//	...
//	err = retrier.Do(ctx, func(ctx context.Context) error {
//		return weir.Do(ctx, lim, func(ctx context.Context) error { ... })
//	})
//
// Have one of each for each backend, shared by all that call it. Retry on one
// floor only: retries of retries multiply.
//
// # When not to use it
//
// It needs to hear of many answers to judge by. A client that sends little, or
// a quota that is known, is better served by package rate; a backend that gets
// slow rather than refuse, by package inflight in front of the calls.
package throttler

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/throttle"
)

var errThrottled = weir.Reject(weir.Throttled, 0)

// A Limiter refuses requests at once, with a chance that grows with the share
// of requests that the backend did not accept of late (throttle.Adaptive). It
// is a weir.Limiter, never waits, and is safe for concurrent use.
//
// A permit is one request, whatever its units, which counts when it is released.
// What its Release says is the backend's answer:
//
//   - Success and Ignored: accepted. To say "no such user" is to do the work.
//   - Dropped, TimedOut and Late: not accepted. What never reached the backend,
//     because a connection was refused or reset, should be released with Dropped.
//   - Left: no answer. It counts for nothing, as if it had never been.
//
// Nor does work that a later limiter of a weir.Chain refused (its cost is 0, it is
// Ignored): the backend was not asked. A request whose answer will take long may
// be released before its end, once the backend has shown that it took it on.
type Limiter struct {
	owner weir.Owner // of its permits
	epoch time.Time

	mu       sync.Mutex // guards what follows
	adaptive *throttle.Adaptive
}

// New returns a Limiter, or the error of cfg.Validate.
func New(cfg throttle.AdaptiveConfig) (*Limiter, error) {
	a, err := throttle.NewAdaptive(cfg)
	if err != nil {
		return nil, err
	}
	l := &Limiter{epoch: time.Now(), adaptive: a}
	l.owner = (*owner)(l)
	return l, nil
}

// Acquire returns a permit to send a request. The error is a *weir.Rejection
// (Throttled) or, if ctx has ended, the context's own: that is not a request.
// It panics if n < 0.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if n < 0 {
		panic("throttler: Acquire of a negative number of units")
	}
	if err := ctx.Err(); err != nil {
		return weir.Permit{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.adaptive.Request(time.Since(l.epoch), rand.Float64()) {
		return weir.Permit{}, errThrottled
	}
	return weir.NewPermit(&l.owner, weir.Grant{N: n}), nil
}

// Stats returns the state and the counts since New.
func (l *Limiter) Stats() throttle.AdaptiveStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.adaptive.Stats(time.Since(l.epoch))
}

// owner keeps Release and Use, which a Permit calls, out of Limiter's methods.
type owner Limiter

// Use only notes n.
func (o *owner) Use(_ weir.Grant, n int) int { return n }

// Release hears how the backend answered.
func (o *owner) Release(g weir.Grant, outcome weir.Outcome) {
	if outcome == weir.Left || outcome == weir.Ignored && g.N == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Since(o.epoch)
	switch outcome {
	case weir.Dropped, weir.TimedOut, weir.Late:
		o.adaptive.Drop(now)
	default:
		o.adaptive.Accept(now)
	}
}
