package httplimit

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

// A Rule is a limit on the requests of a client, or on all requests. PerKey and Overall return
// one; its methods return a changed copy.
type Rule struct {
	rule admission.Rule[*http.Request]
}

// PerKey returns a Rule with a limit for each key: a *keyed.Limiter, *keyed.Windows,
// *redislimit.Limiter, *client.Client or any other Decider of rates, or a *keyed.Inflight or
// another Decider of concurrency, of which a request holds a unit until its handler returns.
// Responses tell clients the name, which is 1 to 64 printable ASCII characters.
//
// The function key returns the key of a request, and whether the request has
// one. All requests without a key share one limit, that of the zero key. This key limits a client
// by its API key or, without one, by its address, where apiKey := Header("X-Api-Key") and
// address := Address():
//
//	func(r *http.Request) (string, bool) {
//		if k, ok := apiKey(r); ok {
//			return "key " + k, true
//		}
//		a, ok := address(r)
//		return "address " + a.String(), ok
//	}
//
// A client that can choose its key has as many limits as it likes. So use a
// header or a cookie as a key only if something in front has verified it.
//
// A Decider that fails, with an error that is no rejection, admits the request. Stats counts its
// failures.
func PerKey[K comparable](name string, lim keyed.Decider[K], key func(*http.Request) (K, bool)) Rule {
	return Rule{admission.PerKey(name, lim, key)}
}

// Overall returns a Rule with one bucket for all requests. For another limiter, use PerKey with
// the same key for all.
func Overall(name string, lim *rate.Limiter) Rule {
	return Rule{admission.Overall[*http.Request](name, lim)}
}

// Cost returns the Rule with a cost in units for each request, >= 0, instead of
// one. A request of cost 0 is admitted unless the bucket is in debt. Use sets a
// cost that is known only later.
func (r Rule) Cost(cost func(*http.Request) int) Rule {
	r.rule.Cost = cost
	return r
}

// Wait returns the Rule with a longest time for which a request waits for tokens,
// in order of arrival. Without it, no request waits. The limiter needs a method
// For(key) weir.Limiter, which Windows and Inflight of package keyed do not have.
func (r Rule) Wait(most time.Duration) Rule {
	r.rule.MaxWait = most
	return r
}

// When returns the Rule as one that applies only to requests for which applies returns
// true. Other requests take no tokens of it, and are not told about it. A further When
// replaces the first.
func (r Rule) When(applies func(*http.Request) bool) Rule {
	r.rule.When = applies
	return r
}

// Shadow returns the Rule as one that counts the requests that it would refuse,
// but refuses none. Clients are not told about it.
func (r Rule) Shadow() Rule {
	r.rule.Shadow = true
	return r
}
