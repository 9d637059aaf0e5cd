package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

// A Rule is a quota that requests are under.
type Rule[R any] struct {
	Name    string
	Buckets Buckets[R]
	Cost    func(R) int   // tokens that a request costs; 0 only looks. If nil, one
	MaxWait time.Duration // how long a request waits for its turn. If zero, not at all
	Shadow  bool          // refuses nobody
}

// Buckets are the buckets that requests take tokens from.
type Buckets[R any] interface {
	// Decide takes n tokens, or says why not. The bucket is for Settle, when the
	// request may have changed.
	Decide(req R, n int) (d weir.Decision, q gcra.Quota, bucket uint64)
	Wait(ctx context.Context, req R, n int) error
	Settle(bucket uint64, was, n int) int
}

func (r *Rule[R]) validate(names map[string]bool) error {
	switch {
	case r.Buckets == nil:
		return fmt.Errorf(": is empty: PerKey and Overall make rules")
	case r.MaxWait < 0:
		return fmt.Errorf(".MaxWait = %v: must be >= 0", r.MaxWait)
	case names[r.Name]:
		return fmt.Errorf(".Name = %q: another rule has that name", r.Name)
	}
	names[r.Name] = true
	return ValidName(r.Name)
}

// ValidName returns nil if a rule may have the name: it goes into headers and
// metrics, so it is of printable ASCII, not empty and at most 64 long.
func ValidName(name string) error {
	ok := name != "" && len(name) <= 64
	for i := range len(name) {
		ok = ok && name[i] >= ' ' && name[i] <= '~'
	}
	if !ok {
		return fmt.Errorf(".Name = %q: must be 1 to 64 printable ASCII characters", name)
	}
	return nil
}

// rejection is what a rule says that has denied.
func (a *Answer) rejection() error {
	if a.RetryAfter == weir.Never && a.Cost > a.Quota.Burst() {
		return weir.Reject(weir.OverBurst, weir.Never)
	}
	return weir.Reject(weir.OverRate, a.RetryAfter)
}

// PerKey returns the Buckets of a limiter that has one for each key.
func PerKey[R any, K comparable](lim *keyed.Limiter[K], key func(R) K) Buckets[R] {
	return perKey[R, K]{lim, key}
}

type perKey[R any, K comparable] struct {
	lim *keyed.Limiter[K]
	key func(R) K
}

func (b perKey[R, K]) Decide(req R, n int) (weir.Decision, gcra.Quota, uint64) {
	d, q, bucket := b.lim.Decide(b.key(req), n)
	return d, q, uint64(bucket)
}
func (b perKey[R, K]) Settle(bucket uint64, was, n int) int {
	return b.lim.SettleBucket(keyed.Bucket(bucket), was, n)
}
func (b perKey[R, K]) Wait(ctx context.Context, req R, n int) error {
	return b.lim.Wait(ctx, b.key(req), n)
}

// Overall returns the one bucket of a limiter, for all requests.
func Overall[R any](lim *rate.Limiter) Buckets[R] { return overall[R]{lim} }

type overall[R any] struct{ lim *rate.Limiter }

func (b overall[R]) Decide(_ R, n int) (weir.Decision, gcra.Quota, uint64) {
	return b.lim.Take(n), b.lim.Quota(), 0
}
func (b overall[R]) Settle(_ uint64, was, n int) int            { return b.lim.Settle(was, n) }
func (b overall[R]) Wait(ctx context.Context, _ R, n int) error { return b.lim.WaitN(ctx, n) }
