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

// A Rule is a rate limit on requests.
type Rule[R any] struct {
	Name    string
	Buckets Buckets[R]
	When    func(R) bool  // whether the rule applies to a request. If nil, to all
	Cost    func(R) int   // tokens that a request costs; 0 takes none. If nil, one
	MaxWait time.Duration // longest wait for tokens. If zero, a request does not wait
	Shadow  bool          // the rule counts, and refuses nothing
}

// PerKey returns a Rule with a bucket for each key. Requests without a key share
// the bucket of the zero key.
func PerKey[R any, K comparable](name string, lim *keyed.Limiter[K], key func(R) (K, bool)) Rule[R] {
	if lim == nil || key == nil {
		panic("weir: PerKey without a limiter or a key")
	}
	return Rule[R]{Name: name, Buckets: perKey[R, K]{lim, key}}
}

// Overall returns a Rule with one bucket for all requests.
func Overall[R any](name string, lim *rate.Limiter) Rule[R] {
	if lim == nil {
		panic("weir: Overall without a limiter")
	}
	return Rule[R]{Name: name, Buckets: overall[R]{lim}}
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
	ok := r.Name != "" && len(r.Name) <= 64
	for i := range len(r.Name) {
		ok = ok && r.Name[i] >= ' ' && r.Name[i] <= '~'
	}
	if !ok { // names go into headers and metrics
		return fmt.Errorf(".Name = %q: must be 1 to 64 printable ASCII characters", r.Name)
	}
	return nil
}

// Buckets are the token buckets of a Rule.
type Buckets[R any] interface {
	// Decide takes n tokens, or says why not. The bucket identifies, for Settle,
	// where the tokens came from: the request may have changed by then.
	Decide(req R, n int) (d weir.Decision, q gcra.Quota, bucket uint64)
	// Wait takes n tokens when they are available.
	Wait(ctx context.Context, req R, n int) error
	// Settle changes a cost from was to n tokens, and returns the tokens now held.
	Settle(bucket uint64, was, n int) int
}

type perKey[R any, K comparable] struct {
	lim *keyed.Limiter[K]
	key func(R) (K, bool)
}

func (b perKey[R, K]) Decide(req R, n int) (weir.Decision, gcra.Quota, uint64) {
	key, _ := b.key(req)
	return b.lim.Table().Decide(key, n)
}

func (b perKey[R, K]) Settle(bucket uint64, was, n int) int {
	return b.lim.Table().Settle(bucket, was, n)
}

func (b perKey[R, K]) Wait(ctx context.Context, req R, n int) error {
	key, _ := b.key(req)
	return b.lim.Table().Wait(ctx, key, n)
}

type overall[R any] struct{ lim *rate.Limiter }

func (b overall[R]) Decide(_ R, n int) (weir.Decision, gcra.Quota, uint64) {
	return b.lim.Take(n), b.lim.Quota(), 0
}
func (b overall[R]) Settle(_ uint64, was, n int) int            { return b.lim.Settle(was, n) }
func (b overall[R]) Wait(ctx context.Context, _ R, n int) error { return b.lim.WaitN(ctx, n) }
