package server

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// maxAssignments bounds the assignments of a rule.
const maxAssignments = 100_000

// keepShare is the change of a share below which a leaf keeps what it has.
const keepShare = 0.1

// assignments share the rate of a rule out among leaves, in one allocator for each bucket.
type assignments struct {
	mu      sync.Mutex
	buckets map[string]*allocator.Allocator
	held    int           // assignments, of all buckets
	swept   time.Duration // when buckets without leaves were last removed
}

// Assign shares rates out among leaves: see decider.Decider.
func (s *Server) Assign(ctx context.Context, r decider.LeafReport) (decider.Assignment, error) {
	if r.Used < 0 {
		panic("server: negative use")
	}
	if err := s.enter(ctx, r.Key); err != nil {
		return decider.Assignment{}, err
	}
	rs, now := s.rules.Load(), s.clock.Now()
	m := s.keys.find(r.Key, rs).match
	got := decider.Assignment{Unlimited: true, TTL: s.cfg.AssignmentTTL}
	got.Learning = now < s.learns && r.Has == 0
	if len(m.list) == 0 && rs.Config.Unmatched == "deny" {
		s.unmatchedDenied.Add(uint64(r.Used))
		return decider.Assignment{TTL: got.TTL}, nil
	}
	for _, rule := range m.rated {
		rule.charge(r.Key, now, 0, 0, r.Used)
		if rule.Mode == config.Shadow {
			continue
		}
		a, err := rule.assign(s, now, r)
		if err != nil {
			return decider.Assignment{}, err
		}
		if got.Unlimited || a.Rate < got.Rate {
			got.Rate, got.Burst, got.Unlimited = a.Rate, a.Burst, false
		}
	}
	return got, nil
}

// assign reports to the allocator of the key's bucket.
func (r *rule) assign(s *Server, now time.Duration, report decider.LeafReport) (allocator.Assignment, error) {
	as, bucket := &r.assigned, r.Bucket(report.Key)
	as.mu.Lock()
	defer as.mu.Unlock()
	as.sweep(now, s.cfg.AssignmentTTL)
	share := s.shareOf(r.Quota)
	limit := allocator.Limit{Burst: float64(share.Limit())}
	if share.Rate.Period > 0 {
		limit.Rate = float64(share.Rate.Count) / share.Rate.Period.Seconds()
	}
	a := as.buckets[bucket]
	if a == nil {
		a = allocator.New(allocator.Config{Limit: limit, TTL: s.cfg.AssignmentTTL, Keep: keepShare, Learn: s.learns})
	}
	was := a.Leaves()
	a.Expire(now)
	if !a.Knows(report.Leaf) && as.held >= maxAssignments {
		return allocator.Assignment{}, decider.ErrLeaves
	}
	a.SetLimit(limit)
	got, err := a.Report(now, allocator.Report{Leaf: report.Leaf, Wants: report.Wants, Has: report.Has})
	if err != nil {
		return got, err
	}
	if as.buckets == nil {
		as.buckets = map[string]*allocator.Allocator{}
	}
	as.buckets[bucket] = a
	as.held += a.Leaves() - was
	return got, nil
}

// sweep removes buckets whose leaves are gone, once in a time to live.
func (as *assignments) sweep(now, ttl time.Duration) {
	if now-as.swept < ttl {
		return
	}
	as.swept, as.held = now, 0
	for bucket, a := range as.buckets {
		a.Expire(now)
		if n := a.Leaves(); n > 0 {
			as.held += n
		} else {
			delete(as.buckets, bucket)
		}
	}
}
