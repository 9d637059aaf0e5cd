package lease

import (
	"context"
	"math"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/ruleset"
)

// A SavedLease is a lease in a snapshot.
type SavedLease struct {
	ID    ID
	Key   string
	N     int
	Token uint64
	Until time.Duration
	Terms ruleset.LeaseTerms
	Under []int // the places of the rules that it holds units of
}

// A State is the content of a Registry, for snapshots.
type State struct {
	Secret  siphash.Key // of ids
	Token   uint64      // the last fencing token
	Unknown []Span      // of a recovery that has not ended
	Leases  []SavedLease
}

// State returns the state. places has the place of each rule; a rule without a place is
// left out.
func (g *Registry) State(places map[*Limits]int) State {
	g.mu.Lock()
	held, s := make([]*holding, 0, len(g.held)), State{Secret: g.secret, Token: g.token, Leases: make([]SavedLease, 0, len(g.held))}
	if g.Recovering() {
		s.Unknown = g.recovery.unknown
	}
	for _, h := range g.held {
		held, s.Leases = append(held, h), append(s.Leases, h.SavedLease)
	}
	g.mu.Unlock()
	for i, h := range held {
		l := &s.Leases[i]
		for j := range h.parts { // not the parts themselves: a permit may be released meanwhile
			if place, ok := places[h.parts[j].bucket.limits]; ok {
				l.Under = append(l.Under, place)
			}
		}
	}
	return s
}

// Restore holds leases again, also beyond the limits. They last as long as they had left
// at the instant saved. After a crash, for which Recover was called, they may have been
// renewed since: they last for their longest time to live. under returns the rule of
// each place, for a key. Restore returns the number of leases.
func (g *Registry) Restore(s *State, saved time.Duration, under func(place int, key string) Under) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.secret, g.token = s.Secret, max(g.token, s.Token)
	if r := g.recovery; r != nil {
		g.token += tokenLeap
		r.resume(s, g.token)
	}
	now := g.clock.Now()
	for i := range s.Leases {
		h := &holding{SavedLease: s.Leases[i], since: now, restored: true}
		left := h.Until - saved
		if g.recovery != nil {
			left = h.Terms.MaxTTL
		}
		if left <= 0 {
			continue
		}
		h.Under = nil // the rules may have other places now
		for _, place := range s.Leases[i].Under {
			u := under(place, h.Key)
			h.parts = append(h.parts, u.Limits.hold(&u, h.N))
		}
		g.holdLocked(h, now+left)
	}
	return len(g.held)
}

// hold admits units of a lease that is restored, regardless of the limit and of whether
// the rule grants leases.
func (l *Limits) hold(u *Under, n int) part {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms == nil {
		l.terms, l.closed = &config.Concurrency{Limit: 1}, true // until Update
	}
	return l.forceLocked(l.enterLocked(u.Bucket), u.Shadow, n)
}

// forceLocked admits units regardless of the limit.
func (l *Limits) forceLocked(b *bucket, shadow bool, n int) part {
	p, ok := b.limiter.TryAcquire(context.Background(), n)
	if !ok {
		was := b.limiter.State().Limit
		b.limiter.SetAlgorithm(limit.Fixed(math.MaxInt))
		p, _ = b.limiter.TryAcquire(context.Background(), n)
		b.limiter.SetAlgorithm(algorithm(l.terms, was))
	}
	l.held.Add(int64(n))
	return part{b, p, shadow}
}

// A SavedLimit is the limit that a bucket has found.
type SavedLimit struct {
	Bucket string
	Limit  int
	Usual  time.Duration // duration of its leases
}

// Found returns the limits that auto has found.
func (l *Limits) Found() (found []SavedLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms == nil || l.terms.Limit != config.Auto {
		return nil
	}
	for name, b := range l.buckets {
		found = append(found, SavedLimit{name, b.limiter.State().Limit, b.usual})
	}
	return found
}

// Restore lets buckets start from the limits that were found. It reports false if
// the limits are not auto.
func (l *Limits) Restore(found []SavedLimit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms == nil || l.terms.Limit != config.Auto {
		return false
	}
	for _, s := range found {
		b := l.buckets[s.Bucket]
		if b == nil {
			b = l.addLocked(s.Bucket, s.Limit)
			l.restLocked(b)
		} else {
			b.limiter.SetAlgorithm(algorithm(l.terms, s.Limit))
		}
		b.usual = s.Usual
	}
	return true
}
