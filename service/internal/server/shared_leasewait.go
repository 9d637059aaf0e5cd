package server

import (
	"context"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
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
			l.asks[i].counts.Refused(why)
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
	defer func() { s.held.leave(l.asks) }()
	l.queue.arrived = denied.Time
	began, longest := time.Now(), l.longest()
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
		if changed, err := s.follow(l); err != nil {
			return decider.Lease{}, err
		} else if changed {
			if longest = l.longest(); time.Since(began) > longest {
				return decider.Lease{}, l.refuse(weir.Overdue, denied.Wait)
			}
		}
		granted, again, err := s.tryLease(ctx, l)
		if err != nil || granted.ID != "" {
			granted.Waited = time.Since(began)
			return granted, err
		}
		denied = &again
	}
}

// longest returns for how long the request may wait: of several rules, the shortest time counts.
func (l *sharedLease) longest() time.Duration {
	longest := time.Duration(math.MaxInt64)
	for i := range l.asks {
		if l.asks[i].limit >= 0 {
			longest = min(longest, l.asks[i].rule.Concurrency.MaxWait)
		}
	}
	return longest
}

// follow has a request that waits follow a reload: it waits under the rules in force, from its arrival on, and gives up
// its places under others. The error is decider.ErrNoLeasing.
func (s *Shared) follow(l *sharedLease) (changed bool, err error) {
	set := s.Set()
	if set == l.rules {
		return false, nil
	}
	m := s.keys.RulesOf(l.key, set)
	terms, ok := lease.TermsOf(m.List)
	if !ok {
		return true, decider.ErrNoLeasing
	}
	was := *l
	s.held.leave(was.asks)
	l.under(m, terms, s.leaseAsks(m, l.key))
	s.held.enter(l.asks)
	l.queue.most = l.queueSize()
	was.asks = slices.DeleteFunc(was.asks, func(a leaseAsk) bool {
		return slices.ContainsFunc(l.asks, func(b leaseAsk) bool { return a.key == b.key })
	})
	if len(was.asks) > 0 {
		s.endLease(&was)
	}
	return true, nil
}

// under sets the rules under which a lease is asked for.
func (l *sharedLease) under(m *rules.Match, terms rules.LeaseTerms, asks []leaseAsk) {
	l.rules, l.asks, l.ttl = m.Set, asks, terms.TTL
	if l.asked > 0 {
		l.ttl = min(l.asked, terms.MaxTTL)
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
