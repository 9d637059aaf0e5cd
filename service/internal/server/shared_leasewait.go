package server

import (
	"context"
	"math"
	mathrand "math/rand/v2"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// The mean pauses of a request that waits for a lease: the first, also after its place has
// changed, the second, and the longest. Requests with others before them pause longer.
const (
	minPoll  = 5 * time.Millisecond
	nextPoll = 25 * time.Millisecond
	maxPoll  = 250 * time.Millisecond
)

// patience is the time within which a request that waits asks again, or loses its place.
const patience = 2 * time.Second

// A leaseQueue is the place of a request that waits, in the store.
type leaseQueue struct {
	patience time.Duration // within which it asks again; 0 if it does not wait
	arrived  time.Duration // by the store's clock; 0 at first
	most     int           // requests for each key
}

// queueSize returns how many requests may wait for a key: of several rules, the smallest queue
// counts.
func (l *sharedLease) queueSize() int {
	size := math.MaxInt32
	for i := range l.asks {
		if l.asks[i].limit >= 0 {
			size = min(size, config.QueueSize(l.asks[i].rule.Concurrency.Queue))
		}
	}
	return size
}

// refuse counts a refusal, and returns it.
func (l *sharedLease) refuse(why weir.Reason, retry time.Duration) error {
	for i := range l.asks {
		if l.asks[i].limit >= 0 {
			l.asks[i].rule.limits.Refused(why)
			break
		}
	}
	return weir.Reject(why, retry)
}

// waitForLease asks again until the lease is granted, or the time for that is over.
func (s *Shared) waitForLease(ctx context.Context, l *sharedLease, denied *redisscript.LeaseReply) (decider.Lease, error) {
	if !s.room.Enter() {
		return decider.Lease{}, l.refuse(weir.QueueFull, 0)
	}
	defer s.room.Leave()
	s.held.enter(l.asks)
	defer s.held.leave(l.asks)
	l.queue.arrived = denied.Time
	began, longest := time.Now(), time.Duration(math.MaxInt64)
	for i := range l.asks {
		if l.asks[i].limit >= 0 {
			longest = min(longest, l.asks[i].rule.Concurrency.MaxWait)
		}
	}
	poll, place := minPoll, -1
	for {
		turns := time.Duration(1 + denied.Place*l.n/l.least())
		if poll = min(2*poll, nextPoll*turns, maxPoll); denied.Place != place {
			place, poll = denied.Place, min(minPoll*turns, maxPoll)
		}
		pause := poll/2 + mathrand.N(poll)
		if time.Since(began)+pause > longest {
			return decider.Lease{}, l.refuse(weir.Overdue, denied.Wait)
		}
		if why := s.pause(ctx, pause); why == callerLeft {
			return decider.Lease{}, ctx.Err()
		} else if why != 0 {
			return decider.Lease{}, l.refuse(why, waiting.DrainRetry)
		}
		granted, again, err := s.tryLease(ctx, l)
		if err != nil || granted.ID != "" {
			granted.Waited = time.Since(began)
			return granted, err
		}
		denied = &again
	}
}

// least returns the smallest limit of the rules.
func (l *sharedLease) least() int {
	least := math.MaxInt32
	for i := range l.asks {
		if l.asks[i].limit >= 0 {
			least = min(least, l.asks[i].limit)
		}
	}
	return least
}
