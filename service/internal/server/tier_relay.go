package server

import (
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
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

// passesAll is the limit of a bucket that does not bound what is passed on: that of a rule with
// a smaller rate does.
var passesAll = allocator.Limit{Rate: 1e12, Burst: 1e12}

// limitPassed sets the limit of a bucket before a leaf reports. It reports false if the Tier has
// nothing to pass on.
func (t *Tier) limitPassed(rs *memory.Version, now time.Duration, h *holding, b *shareBucket) bool {
	terms := t.terms(h.match)
	if terms.rule == nil || b.in != rs.At(terms.rule).State {
		b.SetLimit(passesAll)
		return true
	}
	if terms.way != byLeaf {
		b.SetLimit(allocator.Limit{})
		return terms.way == byNode // nothing passes
	}
	if b.relay == nil {
		b.relay = &relayed{key: terms.key(h.key)}
		t.Server.leaves.relayed[b] = struct{}{}
	}
	b.relay.policy = terms.policy
	return t.limitRelayed(now, b)
}

// limitRelayed sets the limit of a bucket to what the Tier may use, and reports what it wants for
// itself.
func (t *Tier) limitRelayed(now time.Duration, b *shareBucket) bool {
	r := b.relay
	whole := t.leaf.Whole(r.key, r.policy)
	r.shared, r.leaves = whole.Shared, whole.Leaves
	limit := allocator.Limit{Rate: min(whole.Rate, passesAll.Rate), Burst: min(whole.Burst, passesAll.Burst)}
	b.SetLimit(limit)
	for range 2 { // the second tells that the first has been heard
		_, _ = b.Report(now, &r.self, allocator.Report{Wants: min(whole.Wants, passesAll.Rate), Has: r.self.Rate()}) // no error: they are numbers
	}
	return whole.Step != leaf.Ask && whole.Step != leaf.ByRule
}

// told returns the limit of a bucket as its leaves are told it, and the number of leaves that share
// it: the limit of the upstream, and all leaves there if each had as many leaves as this one. So the
// safe shares of the leaves, and of the node itself, are together that of the node.
func (b *shareBucket) told() (limit allocator.Limit, leaves int) {
	if r := b.relay; r != nil && r.leaves > 0 {
		return allocator.Limit(r.shared), r.leaves * b.Members()
	}
	return b.Limit(), b.Members()
}

// pass tells the leaf what other leaves hold and want of a bucket.
func (t *Tier) pass(now time.Duration, b *shareBucket) {
	r := b.relay
	if r == nil {
		return
	}
	for range 2 {
		_, _ = b.Report(now, &r.self, allocator.Report{Wants: r.self.Wants(), Has: r.self.Rate()})
	}
	p := leaf.Passed{Wants: max(b.Wants()-r.self.Wants(), 0)}
	p.Rate, p.Burst = max(b.Held()-r.self.Held(), 0), max(b.HeldBurst()-r.self.HeldBurst(), 0)
	t.leaf.Pass(r.key, p)
}

// refreshRelayed tells the leaf about leaves that are gone.
func (t *Tier) refreshRelayed() {
	ls, now := &t.Server.leaves, t.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.look(now)
	for b := range ls.relayed {
		b.Expire(now)
		if others := b.Members(); others == 0 || others == 1 && b.relay.self.Live() {
			b.relay.self.Leave(now)
			t.leaf.Pass(b.relay.key, leaf.Passed{})
			delete(ls.relayed, b)
			b.relay = nil
			continue
		}
		t.limitRelayed(now, b)
		t.pass(now, b)
	}
	ls.dropEnded(now)
}

// passedTTL returns how long leaves may use what is passed on.
func (t *Tier) passedTTL(most time.Duration) time.Duration {
	if left := t.leaf.Left(); left > 0 {
		return min(left, most)
	}
	return most
}

// spend counts what leaves have used.
func (t *Tier) spend(m *rules.Match, r *leaf.Report) {
	if len(m.Rated) > 0 && r.Used > 0 {
		if terms := t.terms(m); terms.way == byLeaf {
			t.leaf.Spend(terms.key(r.Key), r.Used)
		}
	}
}
