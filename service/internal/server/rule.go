package server

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A rule is a compiled rule with its state. It does not change.
type rule struct {
	*rules.Rule
	*state
	candidate quota.Buckets // nil without one
	// baseLimit is the limit under which the rule uses buckets that it shares with
	// others, where rules overlay each other. It is 0 if the buckets are its own.
	baseLimit int
	stored    *storedRule // how the store counts; nil without a rate, or if limits are not shared
}

// state is the mutable part of a rule. It survives a reload.
type state struct {
	since   time.Duration // when it began to count
	buckets quota.Buckets // nil without a rate
	queue   quota.Queue

	assigned shareBuckets

	charging sync.Mutex // held while a debt is computed and charged
}

// A version is the rules in force with their states.
type version struct {
	*rules.Set
	rules    []*rule   // by Rule.Index; nil if rules overlay each other
	overlays *overlays // nil if they do not

	overrides overrides
}

// at returns a rule of the Set with its state.
func (rs *version) at(r *rules.Rule) *rule {
	if rs.overlays != nil {
		return rs.overlays.at(r)
	}
	return rs.rules[r.Index]
}

// list is at for several rules. It does not return nil.
func (rs *version) list(some []*rules.Rule) []*rule {
	list := make([]*rule, len(some))
	for i, r := range some {
		list[i] = rs.at(r)
	}
	return list
}

// compile compiles rules. Rules that were in force keep their states where they
// can. If there is an error, nothing has changed.
func (s *Server) compile(cfg *config.Rules, old *version) (*version, error) {
	next, before := new(version), (*rules.Set)(nil)
	if old != nil {
		before = old.Set
	}
	set, err := rules.Compile(cfg, before)
	if err != nil {
		return nil, err
	}
	next.Set = set
	if cfg.Merge {
		return next, s.compileOverlays(next, old)
	}
	was := old.byName()
	share, err := s.share(set)
	if err != nil {
		return nil, err
	}
	if err := s.checkSlots(set); err != nil {
		return nil, err
	}
	if s.cfg.Fleet != "" {
		if err := set.CheckRoutes(); err != nil {
			return nil, err
		}
	}
	for _, c := range set.Rules {
		r, err := s.newRule(c, was[c.Name], memoryOf(&c.Rule, share))
		if err != nil {
			return nil, fmt.Errorf("server: rule %q: %w", c.Name, err)
		}
		next.rules = append(next.rules, r)
	}
	if err := s.compileOverrides(next, old, share); err != nil {
		return nil, err
	}
	// From here on nothing can fail.
	s.own.SetMemory(s.ownMemory(share))
	for _, r := range next.rules {
		if w := was[r.Name]; w != nil && w.state == r.state {
			if r.buckets != nil {
				r.buckets.SetQuota(s.shareOf(r.Quota))
			}
		}
		if r.candidate != nil {
			r.candidate.SetQuota(s.shareOf(*r.Candidate))
		}
		r.setMemory(memoryOf(&r.Rule.Rule, share))
	}
	return next, nil
}

// newRule returns a rule with the state of the rule that it replaces, if there is one and
// if its state can serve. Otherwise the rule begins to count, but keeps the leases. The
// candidate keeps its buckets likewise.
func (s *Server) newRule(c *rules.Rule, was *rule, memory int) (r *rule, err error) {
	r = &rule{Rule: c}
	if r.stored, err = s.storedRule(&c.Rule, c.Name); err != nil {
		return nil, err
	}
	same := was != nil && was.Per == c.Per
	switch {
	case c.Candidate == nil:
	case same && was.candidate != nil && rules.SameKind(*was.Candidate, *c.Candidate):
		r.candidate = was.candidate
	default:
		if r.candidate, err = s.newBuckets(s.shareOf(*c.Candidate), c.Per, memory); err != nil {
			return nil, err
		}
	}
	if was != nil && c.Continues(was.Rule) {
		r.state = was.state
		return r, nil
	}
	r.state = &state{since: s.since()}
	if c.Rated() {
		if r.buckets, err = s.newBuckets(s.shareOf(c.Quota), c.Per, memory); err != nil {
			return nil, err
		}
	}
	r.queue.Init(s.clock, s.room, r.buckets)
	return r, nil
}

// byName returns the rules by their names; none if there are overlays, or if rs is nil.
func (rs *version) byName() map[string]*rule {
	all := map[string]*rule{}
	if rs != nil {
		for _, r := range rs.rules {
			all[r.Name] = r
		}
	}
	return all
}

// states yields the state of every rule.
func (rs *version) states(yield func(*state) bool) {
	if rs.overlays != nil {
		slices.Values(rs.overlays.states)(yield)
		return
	}
	for _, r := range rs.rules {
		if !yield(r.state) {
			return
		}
	}
}

// take takes n tokens of a key, if no request waits for them. ownLimit is as
// Rule.OwnLimit returns it; settled is as in quota.Buckets.
func (r *rule) take(key string, fingerprint uint64, at time.Duration, n, ownLimit int, settled bool) weir.Decision {
	bucket, limit := r.Bucket(key), r.limitFor(ownLimit)
	if r.assigned.n.Load() > 0 {
		r.chargeHeld(key, bucket, at)
	}
	if r.candidate != nil && n > 0 {
		r.tryCandidate(bucket, at, n, settled)
	}
	if r.queue.Busy() {
		if d, ok := r.queue.Behind(bucket, at, n, ownLimit, limit, r.Within(ownLimit)); ok {
			return d
		}
	}
	if n > 0 {
		return r.buckets.Take(bucket, fingerprint, at, n, limit, settled)
	}
	return quota.Look(r.buckets, bucket, fingerprint, at, limit)
}

// limitFor returns the limit to pass to the buckets.
func (r *rule) limitFor(ownLimit int) int {
	if ownLimit > 0 {
		return ownLimit
	}
	return r.baseLimit
}

// tryCandidate counts what the candidate decides.
func (r *rule) tryCandidate(bucket string, at time.Duration, n int, settled bool) {
	if r.candidate.Take(bucket, r.candidate.Fingerprint(bucket), at, n, 0, settled).OK {
		r.Tally.TrialAllowed.Add(1)
	} else {
		r.Tally.TrialDenied.Add(1)
	}
}

// settle charges n tokens instead of the was tokens that were taken at an instant. Requests
// that wait get what is returned. The candidate settles too, whatever it decided.
func (r *rule) settle(key string, at time.Duration, was, n int) int {
	bucket := r.Bucket(key)
	charged := r.buckets.Settle(bucket, at, was, n)
	if r.candidate != nil {
		r.candidate.Settle(bucket, at, was, n)
	}
	if n < was {
		r.queue.Serve(bucket)
	}
	return charged
}

// fingerprint returns that of the bucket of a key.
func (r *rule) fingerprint(key string) uint64 { return r.buckets.Fingerprint(r.Bucket(key)) }

// fingerprintOf is fingerprint for the i-th of the rules with a rate of a key, which may be nil.
func (r *rule) fingerprintOf(i int, k *rules.Known, key string) uint64 {
	if k == nil || i > 0 {
		return r.fingerprint(key)
	}
	print := k.Bucket.Load()
	if print == 0 {
		print = r.fingerprint(key)
		k.Bucket.Store(print)
	}
	return print
}
