package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

// A Rule is a limit on the requests of a client.
type Rule[R any] struct {
	Name    string
	Limit   Limit[R]
	When    func(R) bool  // whether the rule applies to a request. If nil, to all
	Cost    func(R) int   // units that a request costs; 0 takes none. If nil, one
	MaxWait time.Duration // longest wait for units. If zero, a request does not wait
	Shadow  bool          // the rule counts, and refuses nothing
}

// PerKey returns a Rule with a limit for each key. Requests without a key share the limit of
// the zero key.
func PerKey[R any, K comparable](name string, lim keyed.Decider[K], key func(R) (K, bool)) Rule[R] {
	if lim == nil || key == nil {
		panic("weir: PerKey without a limiter or a key")
	}
	l := perKey[R, K]{lim: lim, key: key}
	switch lim := lim.(type) {
	case interface{ For(K) *keyed.Key[K] }:
		l.limiter = func(k K) weir.Limiter { return lim.For(k) }
	case interface{ For(K) weir.Limiter }:
		l.limiter = lim.For
	}
	return Rule[R]{Name: name, Limit: &l}
}

// Overall returns a Rule with one bucket for all requests.
func Overall[R any](name string, lim *rate.Limiter) Rule[R] {
	if lim == nil {
		panic("weir: Overall without a limiter")
	}
	l := &overall[R]{lim: lim}
	l.owner = (*overallOwner)(lim)
	return Rule[R]{Name: name, Limit: l}
}

func (r *Rule[R]) validate(names map[string]bool) error {
	switch {
	case r.Limit == nil:
		return fmt.Errorf(": is empty: PerKey and Overall make rules")
	case r.MaxWait < 0:
		return fmt.Errorf(".MaxWait = %v: must be >= 0", r.MaxWait)
	case r.MaxWait > 0 && !r.Limit.Waits():
		return fmt.Errorf(".MaxWait = %v: must be 0, because the limiter of rule %q has no method For", r.MaxWait, r.Name)
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

// A Limit decides for a Rule.
type Limit[R any] interface {
	// Decide takes n units, or says why not, without a wait. See keyed.Decider.
	Decide(ctx context.Context, req R, n int) (keyed.Verdict, error)
	// Acquire takes n units when they are available.
	Acquire(ctx context.Context, req R, n int) (weir.Permit, error)
	// Waits reports whether there is an Acquire.
	Waits() bool
}

type perKey[R any, K comparable] struct {
	lim     keyed.Decider[K]
	key     func(R) (K, bool)
	limiter func(K) weir.Limiter // nil if lim cannot wait
}

func (l *perKey[R, K]) Decide(ctx context.Context, req R, n int) (keyed.Verdict, error) {
	key, _ := l.key(req)
	return l.lim.Decide(ctx, key, n)
}

func (l *perKey[R, K]) Acquire(ctx context.Context, req R, n int) (weir.Permit, error) {
	key, _ := l.key(req)
	return l.limiter(key).Acquire(ctx, n)
}

func (l *perKey[R, K]) Waits() bool { return l.limiter != nil }

type overall[R any] struct {
	lim   *rate.Limiter
	owner weir.Owner // of permits
}

func (l *overall[R]) Decide(_ context.Context, _ R, n int) (keyed.Verdict, error) {
	d, policy := l.lim.Take(n), keyed.PolicyOf(l.lim.Quota())
	if !d.OK {
		return keyed.Verdict{Decision: d, Policy: policy}, nil
	}
	return keyed.Verdict{Decision: d, Policy: policy, Permit: weir.OwnedPermit(&l.owner, weir.Grant{N: n})}, nil
}

func (l *overall[R]) Acquire(ctx context.Context, _ R, n int) (weir.Permit, error) {
	return l.lim.Acquire(ctx, n)
}

func (*overall[R]) Waits() bool { return true }

// overallOwner owns the permits of overall.
type overallOwner rate.Limiter

func (o *overallOwner) Use(g weir.Grant, n int) int { return (*rate.Limiter)(o).Settle(g.N, n) }

func (*overallOwner) Release(weir.Grant, weir.Outcome) {}
