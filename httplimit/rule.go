package httplimit

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/shape"
)

// A Rule is a rate that requests may not exceed. PerKey and Overall make one;
// the methods return it with something changed.
type Rule struct {
	rule admission.Rule[*http.Request]
}

// PerKey returns a Rule with a bucket for each key. Clients are told of it by
// name: up to 64 printable ASCII characters. A request that has no key shares a
// bucket with all others that have none.
func PerKey[K comparable](name string, lim *keyed.Limiter[K], key Key[K]) Rule {
	if lim == nil || key == nil {
		panic("httplimit: PerKey without a limiter or a key")
	}
	buckets := admission.PerKey(lim, func(r *http.Request) K {
		k, _ := key(r)
		return k
	})
	return Rule{admission.Rule[*http.Request]{Name: name, Buckets: buckets}}
}

// Overall returns a Rule with one bucket for all requests.
func Overall(name string, lim *rate.Limiter) Rule {
	if lim == nil {
		panic("httplimit: Overall without a limiter")
	}
	return Rule{admission.Rule[*http.Request]{Name: name, Buckets: admission.Overall[*http.Request](lim)}}
}

// Cost returns the Rule with a cost in tokens for each request, >= 0; 0 is let
// in while the bucket is not in debt. Use tells a cost that is known only later.
func (r Rule) Cost(cost func(*http.Request) int) Rule {
	r.rule.Cost = cost
	return r
}

// Wait returns the Rule with a time that a request may wait for its turn, first
// come, first served. Without, it is refused rather than let wait.
func (r Rule) Wait(most time.Duration) Rule {
	r.rule.MaxWait = most
	return r
}

// Shadow returns the Rule as one that refuses nobody, but counts whom it would
// have. Clients are not told of it.
func (r Rule) Shadow() Rule {
	r.rule.Shadow = true
	return r
}

// Pace returns what Config.Upload and Download want: for each request, the
// bucket of its key, whose tokens are bytes.
func Pace[K comparable](lim *keyed.Limiter[K], key Key[K]) func(*http.Request) shape.Limiter {
	return func(r *http.Request) shape.Limiter {
		k, _ := key(r)
		return lim.For(k)
	}
}
