package proxyrule

import (
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
)

// A BucketState is the state of a bucket.
type BucketState struct {
	Remaining  int           // tokens
	RetryAfter time.Duration // until there is a token; 0 if there is one; weir.Never if the rate is 0
	ResetAfter time.Duration // until there are all; weir.Never if the rate is 0 and a token is taken
}

// Look returns the state of the bucket for a request to which the rule applies. It takes
// nothing.
func (r *Rule) Look(b *Buckets, req *http.Request) BucketState {
	var d weir.Decision
	if b.address != nil {
		address, _ := httplimit.Address()(req) // without one, as without a key: the zero key
		d = b.address.Take(address, 0)
	} else {
		key, _ := r.By.function(&r.match().routes)(req)
		d = b.text.Take(key, 0)
	}
	s := BucketState{Remaining: d.Remaining, ResetAfter: d.ResetAfter}
	switch {
	case d.Remaining > 0:
	case r.Rate.Count == 0:
		s.RetryAfter = weir.Never
	default:
		quota := r.Quota()
		perToken := r.Rate.Period / time.Duration(r.Rate.Count)
		s.RetryAfter = max(d.ResetAfter-time.Duration(quota.Burst()-1)*perToken, time.Nanosecond)
	}
	return s
}
