package lease

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/lease/unknown"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A SavedLease is a lease in a snapshot.
type SavedLease struct {
	ID    ID
	Key   string
	N     int
	Token uint64
	Until time.Duration
	Terms rules.LeaseTerms
	Under []int // the places of the rules that it holds units of
}

// A State is the content of a Registry without the leases, for snapshots.
type State struct {
	Secret  siphash.Key    // of ids
	Token   uint64         // the last fencing token
	Unknown []unknown.Span // of a recovery that has not ended
}

// copyAtOnce bounds the leases that are copied without releasing the lock.
const copyAtOnce = 256

// State returns the state, and the leases that are held at this instant, some at a time. A
// lease that ends before it is copied is left out. places has the place of each rule; a
// rule without a place is left out.
func (g *Registry) State(places map[*Limits]int) (State, iter.Seq[[]SavedLease]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := State{Secret: g.secret, Token: g.token}
	if g.crash != nil && g.Recovering() {
		s.Unknown = g.crash.Spans()
	}
	held := slices.AppendSeq(make([]*holding, 0, len(g.held)), maps.Values(g.held))
	return s, func(yield func([]SavedLease) bool) {
		for some := range slices.Chunk(held, copyAtOnce) {
			if !yield(g.save(some, places)) {
				return
			}
		}
	}
}

// save returns those leases that are still held.
func (g *Registry) save(some []*holding, places map[*Limits]int) []SavedLease {
	held, saved := make([]*holding, 0, len(some)), make([]SavedLease, 0, len(some))
	g.mu.Lock()
	for _, h := range some {
		if h.heapIndex >= 0 {
			held, saved = append(held, h), append(saved, h.SavedLease)
		}
	}
	g.mu.Unlock()
	for i, h := range held {
		saved[i].Under = placesOf(h, places)
	}
	return saved
}

// Restore sets the state. After a crash, Recover must be called before. No lease may be
// granted until Hold was called for all.
func (g *Registry) Restore(s *State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token = max(g.token, s.Token); !g.fleet {
		g.secret = s.Secret
	}
	if g.crash != nil {
		g.token += tokenLeap
		g.crash.Resume(s.Token, g.token, s.Unknown)
	}
}

// Hold holds leases again, also beyond the limits. They last as long as they had left at
// the instant saved. After a crash they may have been renewed since: they last for their
// longest time to live. under returns the rule of each place, for a key.
func (g *Registry) Hold(leases []SavedLease, saved time.Duration, under func(place int, key string) Under) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	for _, l := range leases {
		left := l.Until - saved
		if g.crash != nil {
			left = l.Terms.MaxTTL
		}
		if left > 0 {
			g.holdAgainLocked(l, now, left, under)
		}
	}
}

// holdAgainLocked holds a lease that another process has granted.
func (g *Registry) holdAgainLocked(l SavedLease, now, left time.Duration, under func(place int, key string) Under) {
	h := &holding{SavedLease: l, since: now, restored: true}
	h.Under = nil // the rules may have other places now
	for _, place := range l.Under {
		u := under(place, h.Key)
		u.Limits.hold(h, &u)
	}
	g.holdLocked(h, now+left)
}

// hold admits the units of a lease that is restored, regardless of the limit and of whether
// the rule grants leases.
func (l *Limits) hold(h *holding, u *Under) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms == nil {
		l.terms, l.closed = &config.Concurrency{Limit: 1}, true // until there are others
	}
	l.forceLocked(h, l.enterLocked(u.Bucket), u.Shadow)
}

// forceLocked admits the units of a lease regardless of the limit.
func (l *Limits) forceLocked(h *holding, b *bucket, shadow bool) {
	p, ok := b.limiter.TryAcquire(context.Background(), h.N)
	if !ok {
		was := b.limiter.State().Limit
		b.limiter.SetAlgorithm(limit.Fixed(math.MaxInt))
		p, _ = b.limiter.TryAcquire(context.Background(), h.N)
		b.limiter.SetAlgorithm(algorithm(l.terms, was))
	}
	h.hold(b, &p, shadow)
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
