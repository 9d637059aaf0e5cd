package throttler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/throttle"
)

// RetryConfig sets up a Retrier. The zero value is usable.
type RetryConfig struct {
	// Budget bounds the retries of all callers of the Retrier together.
	Budget throttle.BudgetConfig `json:"budget,omitzero"`
	// Attempts bounds those of one call, the first included, >= 1. If zero, 3.
	Attempts int `json:"attempts,omitempty"`
	// Base is the longest wait before the first retry, doubled for each
	// further one. If zero, 100 ms; if negative, retries do not wait.
	Base time.Duration `json:"base,omitempty"`
	// MaxWait bounds the wait, beside what a rejection asks for. If zero, 10
	// seconds; if negative, retries do not wait.
	MaxWait time.Duration `json:"max_wait,omitempty"`
	// Retryable says which errors may be retried. It must be safe for
	// concurrent use. If nil, rejections that are no missed deadline: they
	// alone say that nothing was done, and that load was why. A Retryable
	// that says more needs work that may safely be done twice.
	Retryable func(error) bool `json:"-"`
}

func (c RetryConfig) withDefaults() RetryConfig {
	if c.Attempts == 0 {
		c.Attempts = 3
	}
	if c.Base == 0 {
		c.Base = 100 * time.Millisecond
	}
	if c.MaxWait == 0 {
		c.MaxWait = 10 * time.Second
	}
	if c.Retryable == nil {
		c.Retryable = refused
	}
	return c
}

// Validate says which field is out of range, or returns nil.
func (c RetryConfig) Validate() error {
	if c.Attempts < 0 {
		return fmt.Errorf("throttler: Attempts = %d: must be >= 1", c.Attempts)
	}
	return c.Budget.Validate()
}

func refused(err error) bool {
	return errors.Is(err, weir.ErrRejected) && !errors.Is(err, context.DeadlineExceeded)
}

// A Retrier runs what may fail because of load, and runs it again, within a
// budget that all its callers share (throttle.Budget). It is safe for
// concurrent use, and starts no goroutine.
type Retrier struct {
	cfg   RetryConfig
	epoch time.Time

	mu     sync.Mutex // guards what follows
	budget *throttle.Budget
}

// NewRetrier returns a Retrier, or the error of cfg.Validate.
func NewRetrier(cfg RetryConfig) (*Retrier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b, err := throttle.NewBudget(cfg.Budget)
	if err != nil {
		return nil, err
	}
	return &Retrier{cfg: cfg.withDefaults(), epoch: time.Now(), budget: b}, nil
}

// Do runs fn until it succeeds or may not be retried, and returns the error of
// the last attempt; if ctx has ended before the first, the context's own.
//
// It waits before each retry: exponentially longer, with full jitter
// (throttle.Backoff), on top of the RetryAfter of a rejection. It gives up
// when
//
//   - it has made all Attempts, or the budget is spent,
//   - the error is not Retryable,
//   - a rejection says that it is in vain (RetryAfter is weir.Never), or that
//     a client keeps the work back (Throttled), here or further down: more of
//     it would be kept back the more often it is tried,
//   - ctx has ended, or would end before the retry.
func (r *Retrier) Do(ctx context.Context, fn func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.Request()
	err := fn(ctx)
	for retry := 0; err != nil && retry+1 < r.cfg.Attempts && r.again(ctx, err, retry); retry++ {
		err = fn(ctx)
	}
	return err
}

// again reports, after a wait, whether to try again after err.
func (r *Retrier) again(ctx context.Context, err error, retry int) bool {
	if !r.cfg.Retryable(err) {
		return false
	}
	wait := throttle.Backoff(r.cfg.Base, r.cfg.MaxWait, retry, rand.Float64())
	if why, ok := errors.AsType[*weir.Rejection](err); ok {
		if why.Reason == weir.Throttled || why.RetryAfter >= weir.Never-wait {
			return false
		}
		wait += max(why.RetryAfter, 0)
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		return false
	}
	return ctx.Err() == nil && r.Retry() && pause(ctx, wait)
}

// pause waits, and reports whether ctx lasted.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
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

// Request counts a first attempt. It is for those who retry by themselves; Do
// calls it.
func (r *Retrier) Request() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.budget.Request(time.Since(r.epoch))
}

// Retry reports whether the budget allows one more retry, and spends it if so.
// It is for those who retry by themselves; Do calls it.
func (r *Retrier) Retry() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.budget.Retry(time.Since(r.epoch))
}

// Stats returns the state of the budget and the counts since NewRetrier.
func (r *Retrier) Stats() throttle.BudgetStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.budget.Stats(time.Since(r.epoch))
}
