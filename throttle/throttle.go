// Package throttle keeps a client from making the overload of a backend worse.
//
// An overloaded backend spends work even on requests that it refuses, and every
// retry adds to its load. A [Limiter] refuses requests locally while the backend
// refuses most of them; a [Retrier] retries a bounded share of the requests:
//
//	lim, err := throttle.New(throttle.Config{})
//	retrier, err := throttle.NewRetrier(throttle.RetryConfig{}, nil)
//	...
//	err = retrier.Do(ctx, func(ctx context.Context) error {
//		return weir.Do(ctx, lim, func(ctx context.Context) error { ... })
//	})
//
// Make one of each per backend, and share it between all callers. Retry in one
// layer only: retries of retries multiply.
//
// # When not to use it
//
// The throttle needs many answers to judge by. For a client that sends little, or
// a quota that is known, package rate works better; for a backend that becomes slow
// instead of refusing, use package inflight in front of the calls.
package throttle

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/outcome"
)

var errThrottled = weir.Reject(weir.Throttled, 0)

// Config sets up a Limiter. The zero value is usable.
type Config struct {
	// K is the number of requests that each accepted request allows, at least 1.
	// With 1.1, a backend refuses at most one request per ten accepted ones. A
	// lower K holds more requests back, and notices later that a backend has
	// recovered. If zero, 2.
	K float64
	// Window is the time over which requests and accepts count. After an outage, a
	// longer one takes longer to trust the backend again. If zero, 30 seconds; in
	// the book it is 2 minutes.
	Window time.Duration
	// Grace is the number of requests in a window that are sent without any
	// accept. If zero, 20; if negative, none, as in the book.
	Grace int
	// MaxP bounds the probability of a refusal, so that some requests always
	// reach the backend. If zero, 0.9; if negative, no request is refused. With 1
	// it is the book's formula.
	MaxP float64
}

// A Limiter refuses requests at once, with a probability p that grows with the
// share of requests that the backend did not accept (Google, Site Reliability
// Engineering, 2016, chapter 21):
//
//	p = min(MaxP, max(0, (requests − Grace − K·accepts) / (requests + 1)))
//
// A Limiter is a weir.Limiter. It never waits. It is safe for concurrent use.
//
// A permit stands for one request, whatever its units, and counts when it is
// released. The outcome is the answer of the backend:
//
//   - Success and Ignored: accepted. An answer such as "no such user" is work done.
//   - Dropped, also a missed deadline: not accepted. Release with Dropped if a
//     request did not reach the backend, because a connection was refused or reset.
//   - Permit.Abandon after a cancelled context: no answer. The request does not count.
//
// A request that a later limiter of a weir.Chain refused (its cost is 0 and its
// outcome Ignored) does not count either. The permit may be released as soon as the
// backend has accepted the request, before its answer.
//
// With the defaults, after an outage longer than Window, p falls below 1/2 42
// seconds after the backend has recovered, and to almost 0 after 55 seconds.
type Limiter struct {
	owner weir.Owner // of its permits
	epoch time.Time

	mu   sync.Mutex // guards core
	core *adaptive.Throttle
}

// New returns a Limiter, or an error that names the first field of cfg that is out
// of range.
func New(cfg Config) (*Limiter, error) {
	core, err := adaptive.New(adaptive.Config(cfg))
	if err != nil {
		return nil, err
	}
	l := &Limiter{epoch: time.Now(), core: core}
	l.owner = (*owner)(l)
	return l, nil
}

// Acquire returns a permit to send a request. The error is a *weir.Rejection
// (Throttled) or, if ctx has ended, the context's own error; then the request does
// not count. Acquire panics if n < 0.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if n < 0 {
		panic("throttle: Acquire of a negative number of units")
	}
	if err := ctx.Err(); err != nil {
		return weir.Permit{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.core.Request(time.Since(l.epoch), rand.Float64()) {
		return weir.Permit{}, errThrottled
	}
	return weir.OwnedPermit(&l.owner, weir.Grant{N: n}), nil
}

// Stats are the state and the counts of a Limiter.
type Stats struct {
	P        float64 // the probability that the next request is refused
	Requests int     // in the window: accepted, not accepted, or refused locally
	Accepts  int     // in the window: accepted

	Sent      uint64 // since New: permits granted
	Throttled uint64 // since New: requests refused locally
}

// Stats returns the state, and the counts since New.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats(l.core.Stats(time.Since(l.epoch)))
}

// owner implements the methods that a Permit calls, so that Limiter does not
// export them.
type owner Limiter

func (o *owner) Use(_ weir.Grant, n int) int { return n }

func (o *owner) Release(g weir.Grant, how weir.Outcome) {
	if how == outcome.Left || how == weir.Ignored && g.N == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Since(o.epoch)
	switch how {
	case weir.Dropped, outcome.TimedOut, outcome.Late:
		o.core.Drop(now)
	default:
		o.core.Accept(now)
	}
}
