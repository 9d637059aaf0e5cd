package throttle

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/waitq"
)

// RetryConfig sets up a Retrier. The zero value is usable.
type RetryConfig struct {
	// Attempts bounds the attempts of one call, including the first. If zero, 3;
	// with 1 there are no retries.
	Attempts int
	// Backoff is the longest wait before the first retry. It doubles for each
	// further retry; the actual wait is a random part of it. If zero, 100 ms; if
	// negative, retries do not wait.
	Backoff time.Duration
	// MaxBackoff bounds the doubling. If zero, 10 seconds; if negative, retries
	// do not wait.
	MaxBackoff time.Duration
	// Ratio is the share of the calls that may be retried, in (0, 1], counted
	// over the last 10 seconds. If zero, 0.1.
	Ratio float64
	// MinPerSecond is the number of retries per second that are allowed in
	// addition, so that a client with few requests can retry at all: 10 times
	// MinPerSecond in any 10 seconds. If zero, 1; if negative, none.
	MinPerSecond float64
}

// A Retrier runs work that may fail because of load, and runs it again within a
// budget that all its callers share: at most Ratio·calls + 10·MinPerSecond retries in
// any 10 seconds (Site Reliability Engineering, chapter 21, "Deciding to Retry"). It is
// safe for concurrent use, and starts no goroutine.
type Retrier struct {
	cfg       adaptive.RetryConfig
	retryable func(error) bool
	epoch     time.Time

	mu     sync.Mutex // guards budget
	budget *adaptive.Budget
}

// NewRetrier returns a Retrier, or an error that names the first field of cfg that
// is out of range.
//
// Retryable tells which errors may be retried; it must be safe for concurrent use.
// If it is nil, only rejections other than a missed deadline are retried: they alone
// show that no work was done. Retrying more needs work that may be done twice.
func NewRetrier(cfg RetryConfig, retryable func(error) bool) (*Retrier, error) {
	c := adaptive.RetryConfig(cfg).WithDefaults()
	b, err := c.NewBudget()
	if err != nil {
		return nil, err
	}
	if retryable == nil {
		retryable = func(err error) bool {
			return errors.Is(err, weir.ErrRejected) && !errors.Is(err, context.DeadlineExceeded)
		}
	}
	return &Retrier{cfg: c, retryable: retryable, epoch: time.Now(), budget: b}, nil
}

// Do runs fn until it succeeds or may not be retried, and returns the error of the
// last attempt. If ctx has ended before the first attempt, it returns the
// context's own error.
//
// Before a retry it waits for the backoff and, after a rejection, for its
// RetryAfter in addition. It does not retry if
//
//   - Attempts is reached or the budget is spent,
//   - the error is not retryable, or is a rejection with RetryAfter weir.Never,
//   - the error is a rejection with Throttled: a throttle refuses more requests the
//     more it is asked,
//   - ctx has ended, or would end before the retry.
func (r *Retrier) Do(ctx context.Context, fn func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	r.budget.Request(time.Since(r.epoch))
	r.mu.Unlock()
	err := fn(ctx)
	for retry := 0; err != nil && retry+1 < r.cfg.Attempts && r.again(ctx, err, retry); retry++ {
		err = fn(ctx)
	}
	return err
}

// again reports, after a wait, whether to retry after err.
func (r *Retrier) again(ctx context.Context, err error, retry int) bool {
	if !r.retryable(err) {
		return false
	}
	wait := adaptive.Backoff(r.cfg.Backoff, r.cfg.MaxBackoff, retry, rand.Float64())
	if rejection, ok := errors.AsType[*weir.Rejection](err); ok {
		if rejection.Reason == weir.Throttled || rejection.RetryAfter >= weir.Never-wait {
			return false
		}
		wait += max(rejection.RetryAfter, 0)
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		return false
	}
	if ctx.Err() != nil {
		return false
	}
	r.mu.Lock()
	ok := r.budget.Retry(time.Since(r.epoch))
	r.mu.Unlock()
	return ok && waitq.Sleep(ctx, wait)
}

// RetryStats are the state and the counts of the budget of a Retrier.
type RetryStats struct {
	Requests int // in the last 10 seconds: calls
	Retries  int // in the last 10 seconds
	Allowed  int // the bound on Retries now

	Retried   uint64 // since NewRetrier: retries
	Exhausted uint64 // since NewRetrier: retries that the budget refused
}

// Stats returns the state of the budget, and the counts since NewRetrier.
func (r *Retrier) Stats() RetryStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return RetryStats(r.budget.Stats(time.Since(r.epoch)))
}
