package store

import (
	"context"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/away"
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
	return l.smallest(math.MaxInt32, func(c *config.Concurrency) int { return config.QueueSize(c.Queue) })
}

// longest returns for how long the request may wait: of several rules, the shortest time counts.
func (l *sharedLease) longest() time.Duration {
	return time.Duration(l.smallest(math.MaxInt64, func(c *config.Concurrency) int { return int(c.MaxWait) }))
}

// least returns the smallest limit of the rules.
func (l *sharedLease) least() int {
	return l.smallest(math.MaxInt32, func(c *config.Concurrency) int { return int(c.Limit) })
}

// smallest returns the smallest value that a rule which can refuse has, or most if there is none.
func (l *sharedLease) smallest(most int, of func(*config.Concurrency) int) int {
	for i := range l.Parts {
		if p := &l.Parts[i]; p.Enforced() {
			most = min(most, of(p.Rule.Concurrency))
		}
	}
	return most
}

// waitForLease asks again until the lease is granted, or the time for that is over.
func (s *Counts) waitForLease(ctx context.Context, l *sharedLease, denied *redisscript.LeaseReply) (decider.Lease, error) {
	if !s.of.Room.Enter() {
		return decider.Lease{}, l.Refuse(weir.QueueFull, 0)
	}
	defer s.of.Room.Leave()
	s.waits.add(l, 1)
	defer func() { s.waits.add(l, -1) }()
	l.queue.arrived = denied.Time
	began, longest := time.Now(), l.longest()
	poll, place := minPoll, -1
	for {
		turns := time.Duration(1 + denied.Place*l.N/l.least())
		if poll = min(2*poll, nextPoll*turns, maxPoll); denied.Place != place {
			place, poll = denied.Place, min(minPoll*turns, maxPoll)
		}
		pause := poll/2 + mathrand.N(poll)
		if time.Since(began)+pause > longest {
			return decider.Lease{}, l.Refuse(weir.Overdue, denied.Wait)
		}
		if why := s.pause(ctx, pause); why == callerLeft {
			return decider.Lease{}, ctx.Err()
		} else if why != 0 {
			return decider.Lease{}, l.Refuse(why, waiting.DrainRetry)
		}
		if changed, err := s.follow(l); err != nil {
			return decider.Lease{}, err
		} else if changed {
			if longest = l.longest(); time.Since(began) > longest {
				return decider.Lease{}, l.Refuse(weir.Overdue, denied.Wait)
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

// follow has a request that waits follow a reload: it waits under the rules in force, from its arrival on, and gives up
// its places under others. The error is decider.ErrNoLeasing.
func (s *Counts) follow(l *sharedLease) (changed bool, err error) {
	set := s.of.Set()
	if set == l.rules {
		return false, nil
	}
	m := s.of.Keys.RulesOf(l.Key, set)
	terms, ok := lease.TermsOf(m.List)
	if !ok {
		return true, decider.ErrNoLeasing
	}
	was := *l
	s.waits.add(&was, -1)
	next := *l.Lease // no other call has it
	l.Lease = &next
	l.under(m, terms, s.held.Parts(m, l.Key))
	s.waits.add(l, 1)
	l.queue.most = l.queueSize()
	gone := *was.Lease
	gone.Parts = slices.DeleteFunc(slices.Clone(was.Parts), func(a away.LeasePart) bool {
		return slices.ContainsFunc(l.Parts, func(b away.LeasePart) bool { return s.leaseKey(&a) == s.leaseKey(&b) })
	})
	if was.Lease = &gone; len(gone.Parts) > 0 {
		s.endLease(&was)
	}
	return true, nil
}

// under sets the rules under which a lease is asked for.
func (l *sharedLease) under(m *rules.Match, terms rules.LeaseTerms, parts []away.LeasePart) {
	l.rules, l.Parts, l.ttl = m.Set, parts, away.TTL(terms, l.asked)
	l.TTL = l.ttl
}

// leaseWaits count the requests of this node that wait for leases, by buckets.
type leaseWaits struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

// add counts a request.
func (w *leaseWaits) add(l *sharedLease, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range l.Parts {
		key := l.Parts[i].Rule.Name + " " + l.Parts[i].Bucket
		if w.n[key] += n; w.n[key] == 0 {
			delete(w.n, key)
		}
	}
}

// of returns the count of a bucket.
func (w *leaseWaits) of(p *away.LeasePart) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n[p.Rule.Name+" "+p.Bucket]
}
