package keyed

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

// A Decider is a limit for every key that decides without a wait. Rules of httplimit and
// grpclimit take any: a Limiter, Windows or Inflight of this package, which decide in memory; a
// redislimit.Limiter, redislimit.Leases, a client.Client or its Leases, which share a limit among
// processes; or one's own. Implementations are safe for concurrent use.
type Decider[K any] interface {
	// Decide takes n units of a key, n >= 0, or says why not. ctx ends with the request. A
	// Decider that asks a server bounds the time that this takes, and decides by itself if the
	// server does not answer.
	//
	// An error means that there is no decision. A *weir.Rejection, and the error of ctx, reject
	// the request. Any other error is a failure of the Decider: rules admit the request, and
	// count the failure.
	Decide(ctx context.Context, key K, n int) (Verdict, error)
}

// A Verdict is the answer of a Decider to one request.
type Verdict struct {
	// Decision has a RetryAfter and a ResetAfter of 0 if they are not known.
	weir.Decision
	// Policy is the limit of the key, which clients are told.
	Policy Policy
	// Permit holds the units that were taken. Its Use gives units back or charges more; a
	// request that another limit rejects has a cost of 0. Its Release follows, or comes when
	// the request has ended. The zero Permit takes nothing back.
	Permit weir.Permit
}

// A Policy describes the limit of a key, as far as clients need it: a token bucket has a Limit
// and a Rate, a window of time a Limit and a Window, a sliding one all three, and a concurrency
// limit is Concurrent. The zero Policy is unknown, or no limit: clients are not told about it.
type Policy struct {
	Limit      int           // the most units at once: of a bucket its burst, else of a window or in flight
	Rate       float64       // of a bucket: units per second that come back
	Window     time.Duration // of a window: its length; 0: it does not end
	Concurrent bool          // the Limit is one of units in flight
}

// PolicyOf returns the Policy of token buckets with a Quota.
func PolicyOf(q gcra.Quota) Policy { return policyOf(&q) }

func policyOf(q *gcra.Quota) Policy {
	if *q == gcra.Unlimited() {
		return Policy{}
	}
	return Policy{Limit: q.Burst(), Rate: q.Rate()}
}
