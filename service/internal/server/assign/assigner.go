// Package assign shares the limits of rules out among leaves: processes that decide by themselves, each within an assignment.
//
//	a := assign.New(assign.Config{Memory: counts, Keys: keys, Clock: clock, TTL: 30 * time.Second, Most: 500_000})
//	err := a.Exchange(&exchange, &answer)
//
// Package allocator computes the shares of one limit. An Assigner knows the leaves, finds the rules of the keys that they report,
// and charges what leaves use to the buckets by which the node itself decides.
package assign

import (
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Config configures an Assigner.
type Config struct {
	Memory *memory.Counts // of the node: it has the rules in force
	Keys   *rules.Keys
	Clock  *clock.Clock
	TTL    time.Duration // how long an assignment is valid
	Most   int           // assignments of keys, of all leaves together
	// Source has what may be given away. If nil, these are the limits of the rules.
	Source Source
	// NewOwner returns the configuration of the Allocators of a key that this node owns since a short time: see
	// Assigner.Learning. It returns nil for other keys.
	NewOwner func(now time.Duration, key string) *allocator.Config
	// Unmatched counts tokens that leaves have used under unmatched: deny.
	Unmatched func(n uint64)
}

// A Source is a part of the limits that may be given away: that of a node which has an upstream. Its methods are called
// by one exchange at a time.
type Source interface {
	// Give sets the limit of a bucket, of the match of a key, to how much of it may be given away. It returns false if nothing
	// is, but may be soon.
	Give(now time.Duration, of *memory.Version, m *rules.Match, key string, b *Bucket) bool
	// Given tells that what leaves have of a bucket has changed.
	Given(now time.Duration, b *Bucket)
	// Told returns the limit of a bucket as leaves are told it, and the number of leaves that share it.
	Told(b *Bucket) (allocator.Limit, int)
	// Spend counts what a leaf has used.
	Spend(m *rules.Match, r *leaf.Report)
	// TTL returns how long leaves may use what they are given, at most a time to live.
	TTL(most time.Duration) time.Duration
}

// An Assigner shares limits out. It is safe for concurrent use.
type Assigner struct {
	cfg    Config
	leaves leaves
}

// New returns an Assigner that learns what leaves have: see Restore and First.
func New(cfg Config) *Assigner {
	a := &Assigner{cfg: cfg}
	a.leaves.init(cfg.TTL, cfg.Most)
	a.leaves.passed = cfg.Source != nil
	a.leaves.learn(cfg.Clock.Now())
	return a
}

// First tells that no process was before this one, so that no leaf has anything. It must be called before any other use.
func (a *Assigner) First() { a.leaves.blind, a.leaves.cfg.Learn = 0, 0 }

// Learning returns the configuration of Allocators that learn from an instant on what leaves have that another node has assigned. If
// the state of that node is lost, until these assignments have ended.
func (a *Assigner) Learning(now time.Duration, lost bool) *allocator.Config {
	cfg := a.leaves.cfg
	if cfg.Learn = now + cfg.TTL; !lost {
		cfg.Learn = now + min(learnFor, cfg.TTL)
	}
	return &cfg
}

// sharing returns the configuration of the Allocator of a key.
func (a *Assigner) sharing(key string, now time.Duration) *allocator.Config {
	if cfg := a.cfg.NewOwner(now, key); cfg != nil {
		return cfg
	}
	return &a.leaves.cfg
}

// isNew reports whether the node owns a key since a short time.
func (e *exchange) isNew(key string) bool { return e.of.cfg.NewOwner(e.now, key) != nil }

// told returns the limit of a bucket as its leaves are told it, and the number of leaves that share it.
func (a *Assigner) told(b *Bucket) (allocator.Limit, int) {
	if a.cfg.Source != nil {
		return a.cfg.Source.Told(b)
	}
	return b.Limit(), b.Members()
}

// Refresh calls f while no exchange goes on, with the assignments taken back of leaves that are gone.
func (a *Assigner) Refresh(f func(now time.Duration)) {
	ls, now := &a.leaves, a.cfg.Clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.look(now)
	f(now)
	ls.dropEnded(now)
}

// Depart ends the assignments of keys in slots, so that they do not count as known: see decider.LeafAnswer.Known.
func (a *Assigner) Depart(slots *slot.Set, slotOf func(key string) uint16) {
	ls := &a.leaves
	ls.mu.Lock()
	names := make([]string, 0, len(ls.byName))
	for name := range ls.byName {
		names = append(names, name)
	}
	ls.mu.Unlock()
	for _, name := range names { // exchanges go on between two leaves
		ls.mu.Lock()
		if l := ls.byName[name]; l != nil {
			a.departLocked(l, slots, slotOf)
		}
		ls.mu.Unlock()
	}
}

// departLocked ends the assignments of a leaf. leaves.mu is held.
func (a *Assigner) departLocked(l *leafSession, slots *slot.Set, slotOf func(key string) uint16) {
	ls, now := &a.leaves, a.cfg.Clock.Now()
	var gone []*holding
	for _, at := range l.keys.slots {
		if at.holding != nil && slots.Has(slotOf(at.holding.key)) {
			gone = append(gone, at.holding)
		}
	}
	for _, h := range gone {
		ls.drop(h, now)
		for p := h.parts; p != nil; p = p.next {
			if p.bucket != ls.unlimited && p.bucket.Members() == 0 {
				ls.removeBucket(p.bucket) // its Allocator may not learn when the key comes back
			}
		}
	}
}

// Stats is the state of the leaves that have assignments, and the counts of what they
// have sent.
type Stats struct {
	Leaves      int    // present
	Assignments int    // of keys, of all leaves
	Buckets     int    // buckets that leaves share
	Exchanges   uint64 // received
	Reports     uint64 // in them
	Refused     uint64 // reports without an assignment, and exchanges of leaves beyond the bound

	TenantRefused uint64 // of Refused, those of leaves with a token for some keys
}

// Stats returns the state, and the counts.
func (a *Assigner) Stats() Stats {
	ls := &a.leaves
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return Stats{
		Leaves: len(ls.byName), Assignments: ls.held, Buckets: len(ls.buckets),
		Exchanges: ls.exchanges, Reports: ls.reports, Refused: ls.refused, TenantRefused: ls.tenantRefused,
	}
}
