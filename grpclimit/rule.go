package grpclimit

import (
	"time"

	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

// A Rule is a limit on the calls of a client, or on all calls. PerKey and Overall return one; its
// methods return a changed copy.
type Rule struct {
	// Package httplimit has the same type and methods: a generic type of both would
	// not be a type of this package.
	rule admission.Rule[Request]
}

// PerKey returns a Rule with a limit for each key: a *keyed.Limiter, *keyed.Windows,
// *redislimit.Limiter, *client.Client or any other Decider of rates, or a *keyed.Inflight or
// another Decider of concurrency, of which a call holds a unit until its handler returns.
// Refused clients are told the name, which is 1 to 64 printable ASCII characters.
//
// The function key returns the key of a call, and whether the call has one. All
// calls without a key share one limit, that of the zero key. A client that can choose its key has
// as many limits as it likes. So use metadata as a key only if something in front has verified
// it.
//
// A Decider that fails, with an error that is no rejection, admits the call. Stats counts its
// failures.
func PerKey[K comparable](name string, lim keyed.Decider[K], key func(Request) (K, bool)) Rule {
	return Rule{admission.PerKey(name, lim, key)}
}

// Overall returns a Rule with one bucket for all calls. For another limiter, use PerKey with the
// same key for all.
func Overall(name string, lim *rate.Limiter) Rule {
	return Rule{admission.Overall[Request](name, lim)}
}

// Cost returns the Rule with a cost in units for each call, >= 0, instead of one.
// A call of cost 0 is admitted unless the bucket is in debt. Use sets a cost that
// is known only later.
func (r Rule) Cost(cost func(Request) int) Rule {
	r.rule.Cost = cost
	return r
}

// Wait returns the Rule with a longest time for which a call waits for tokens, in
// order of arrival. Without it, no call waits. The limiter needs a method
// For(key) weir.Limiter, which Windows and Inflight of package keyed do not have.
func (r Rule) Wait(most time.Duration) Rule {
	r.rule.MaxWait = most
	return r
}

// Shadow returns the Rule as one that counts the calls that it would refuse, but
// refuses none.
func (r Rule) Shadow() Rule {
	r.rule.Shadow = true
	return r
}
