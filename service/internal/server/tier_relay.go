package server

import (
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/assign"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/tier"
)

// A relayed bucket is one of which a Tier passes its assignment on. The Tier itself is a member of
// the Allocator, so that its own callers have a fair share. What is left by the others, it uses.
type relayed struct {
	self   allocator.Member
	key    string       // of the leaf
	policy *leaf.Policy // of the key
	shared leaf.Limit   // of the upstream
	leaves int          // of the upstream
}

// relays are the Source of the leaves of a Tier: it passes its assignments on.
type relays struct {
	tier *Tier
	all  map[*assign.Bucket]*relayed
}

// passesAll is the limit of a bucket that does not bound what is passed on: that of a rule with
// a smaller rate does.
var passesAll = allocator.Limit{Rate: 1e12, Burst: 1e12}

// Give sets the limit of a bucket to what the Tier may pass on of it: all, under a rule that is not the smallest one. It returns
// false if the Tier has nothing yet.
func (r *relays) Give(now time.Duration, of *memory.Version, m *rules.Match, key string, b *assign.Bucket) bool {
	t := r.tier
	terms := t.tier.Terms(m)
	if terms.Rule == nil || !b.Of(of.At(terms.Rule)) {
		b.SetLimit(passesAll)
		return true
	}
	if terms.Way != tier.ByLeaf {
		b.SetLimit(allocator.Limit{})
		return terms.Way == tier.ByNode // nothing passes
	}
	passed := r.all[b]
	if passed == nil {
		passed = &relayed{key: terms.Key(key)}
		r.all[b] = passed
	}
	passed.policy = terms.Policy
	return t.limitRelayed(now, b, passed)
}

// limitRelayed sets the limit of a bucket to what the Tier may use, and reports what it wants for
// itself.
func (t *Tier) limitRelayed(now time.Duration, b *assign.Bucket, r *relayed) bool {
	whole := t.tier.Leaf().Whole(r.key, r.policy)
	r.shared, r.leaves = whole.Shared, whole.Leaves
	limit := allocator.Limit{Rate: min(whole.Rate, passesAll.Rate), Burst: min(whole.Burst, passesAll.Burst)}
	b.SetLimit(limit)
	for range 2 { // the second tells that the first has been heard
		_, _ = b.Report(now, &r.self, allocator.Report{Wants: min(whole.Wants, passesAll.Rate), Has: r.self.Rate()}) // no error: they are numbers
	}
	return whole.Step != leaf.Ask && whole.Step != leaf.ByRule
}

// Told returns the limit of a bucket as its leaves are told it, and the number of leaves that share
// it: the limit of the upstream, and all leaves there if each had as many leaves as this one. So the
// safe shares of the leaves, and of the node itself, are together that of the node.
func (r *relays) Told(b *assign.Bucket) (limit allocator.Limit, leaves int) {
	if of := r.all[b]; of != nil && of.leaves > 0 {
		return allocator.Limit(of.shared), of.leaves * b.Members()
	}
	return b.Limit(), b.Members()
}

// Given tells the Tier what its leaves hold and want of a bucket.
func (r *relays) Given(now time.Duration, b *assign.Bucket) {
	if of := r.all[b]; of != nil {
		r.tier.pass(now, b, of)
	}
}

// pass tells the leaf what other leaves hold and want of a bucket.
func (t *Tier) pass(now time.Duration, b *assign.Bucket, r *relayed) {
	for range 2 {
		_, _ = b.Report(now, &r.self, allocator.Report{Wants: r.self.Wants(), Has: r.self.Rate()})
	}
	p := leaf.Passed{Wants: max(b.Wants()-r.self.Wants(), 0)}
	p.Rate, p.Burst = max(b.Held()-r.self.Held(), 0), max(b.HeldBurst()-r.self.HeldBurst(), 0)
	t.tier.Leaf().Pass(r.key, p)
}

// refreshRelayed tells the leaf about leaves that are gone.
func (t *Tier) refreshRelayed() {
	t.assigner.Refresh(func(now time.Duration) {
		for b, r := range t.relays.all {
			b.Expire(now)
			if others := b.Members(); others == 0 || others == 1 && r.self.Live() {
				r.self.Leave(now)
				t.tier.Leaf().Pass(r.key, leaf.Passed{})
				delete(t.relays.all, b)
				continue
			}
			t.limitRelayed(now, b, r)
			t.pass(now, b, r)
		}
	})
}

// TTL returns how long leaves may use what is passed on.
func (r *relays) TTL(most time.Duration) time.Duration {
	if left := r.tier.tier.Leaf().Left(); left > 0 {
		return min(left, most)
	}
	return most
}

// Spend counts what leaves have used.
func (r *relays) Spend(m *rules.Match, by *leaf.Report) {
	if len(m.Rated) > 0 && by.Used > 0 {
		if terms := r.tier.tier.Terms(m); terms.Way == tier.ByLeaf {
			r.tier.tier.Leaf().Spend(terms.Key(by.Key), by.Used)
		}
	}
}
