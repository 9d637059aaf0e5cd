package proxyrule

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/keyed"
)

// A BucketState is the state of a bucket, or of the requests of a key in flight.
type BucketState struct {
	Remaining  int           // tokens, or requests that may come in addition
	RetryAfter time.Duration // until there is a token; 0 if there is one or a Limit; weir.Never if the rate is 0
	ResetAfter time.Duration // until there are all; weir.Never if the rate is 0 and a token is taken
}

// Look returns the state of the bucket for a request to which the rule applies. It takes
// nothing.
func (r *Rule) Look(b *Buckets, req *http.Request) BucketState {
	var d weir.Decision
	if b.address != nil {
		address, _ := Address(req) // without one, as without a key: the zero key
		d = look(req.Context(), b.address, address)
	} else {
		key, _ := r.By.function(r.match().routes)(req)
		d = look(req.Context(), b.text, key)
	}
	s := BucketState{Remaining: d.Remaining, ResetAfter: d.ResetAfter}
	switch {
	case d.Remaining > 0, r.Limit > 0:
	case r.Rate.Count == 0:
		s.RetryAfter = weir.Never
	default:
		quota := r.Quota()
		perToken := r.Rate.Period / time.Duration(r.Rate.Count)
		s.RetryAfter = max(d.ResetAfter-time.Duration(quota.Burst()-1)*perToken, time.Nanosecond)
	}
	return s
}

// look decides about nothing. Deciders in memory do not fail.
func look[K any](ctx context.Context, l keyed.Decider[K], key K) weir.Decision {
	v, _ := l.Decide(ctx, key, 0)
	return v.Decision
}
