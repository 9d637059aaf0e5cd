package lease

import (
	"context"
	"math"
	"time"

	"github.com/weir-go/weir"
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

// Leases returns all leases, and the last fencing token. places has the place of
// each rule; a rule without a place is left out.
func (g *Registry) Leases(places map[*Limits]int) ([]SavedLease, uint64) {
	g.mu.Lock()
	held, leases := make([]*holding, 0, len(g.held)), make([]SavedLease, 0, len(g.held))
	for _, h := range g.held {
		held, leases = append(held, h), append(leases, h.SavedLease)
	}
	token := g.token
	g.mu.Unlock()
	for i, h := range held {
		s := &leases[i]
		for j := range h.parts { // not the parts themselves: a permit may be released meanwhile
			if place, ok := places[h.parts[j].bucket.limits]; ok {
				s.Under = append(s.Under, place)
			}
		}
	}
	return leases, token
}

// Restored counts the leases of a snapshot: held again, expired, beyond the bound,
// and without a rule that grants leases.
type Restored struct{ Held, Expired, TooMany, Orphaned int }

// Restore holds leases again; under returns the rules of each, now. They are held
// even if the limit is lower than it was.
func (g *Registry) Restore(leases []SavedLease, token uint64, under func(*SavedLease) []Under) (r Restored) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = max(g.token, token)
	now := g.clock.Now()
	for i := range leases {
		s := &leases[i]
		switch {
		case s.Until <= now:
			r.Expired++
		case len(g.held) >= g.max:
			r.TooMany++
		default:
			h := &holding{SavedLease: *s, since: now, restored: true}
			h.Under = nil // the rules may have other places now
			for _, u := range under(s) {
				if b := u.Limits.enter(u.Bucket); b != nil {
					h.parts = append(h.parts, part{b, b.force(s.N), u.Shadow})
					u.Limits.held.Add(int64(s.N))
				}
			}
			if len(h.parts) == 0 && len(s.Under) > 0 {
				r.Orphaned++
				continue
			}
			g.holdLocked(h, s.Until)
			r.Held++
		}
	}
	return r
}

// force admits units regardless of the limit.
func (b *bucket) force(n int) weir.Permit {
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	p, ok := b.limiter.TryAcquire(context.Background(), n)
	if !ok {
		was := b.limiter.State().Limit
		b.limiter.SetAlgorithm(limit.Fixed(math.MaxInt))
		p, _ = b.limiter.TryAcquire(context.Background(), n)
		b.limiter.SetAlgorithm(algorithm(b.limits.terms, was))
	}
	return p
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
