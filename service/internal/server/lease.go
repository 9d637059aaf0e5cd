package server

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/ruleset"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Acquire takes a lease: see decider.Decider.
func (s *Server) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	if req.N < 1 {
		panic("server: a lease of less than one unit")
	}
	if err := s.enter(ctx, req.Key); err != nil {
		return decider.Lease{}, err
	}
	for again := (lease.Wait{OnWait: req.OnWait}); ; {
		rs := s.rules.Load()
		k := s.keys.find(req.Key, rs)
		l, err := s.leases.Acquire(ctx, &req, leasePlan(rs, k.match, req.Key, make([]lease.Under, 0, 8)), &again)
		if err != waiting.ErrMoved {
			s.refusedLeases.count(k, err)
			return l, err
		}
	}
}

// leasePlan returns the rules of a match that grant leases of a key, appended to under.
func leasePlan(rs *rules, m *match, key string, under []lease.Under) lease.Plan {
	terms, _ := leaseTerms(m.list)
	return lease.NewPlan(rs.id, terms, leaseUnder(m.list, key, under))
}

// publish puts rules into force. Requests that wait for leases go on to wait under these.
func (s *Server) publish(old, next *rules) {
	plans := map[string]lease.Plan{}
	plan := func(key string) lease.Plan {
		p, known := plans[key]
		if !known {
			p = leasePlan(next, next.find(key), key, nil)
			plans[key] = p
		}
		return p
	}
	for _, key := range s.leases.Waiting() { // most keys, without blocking the requests
		plan(key)
	}
	terms := map[*lease.Limits]*config.Concurrency{}
	for _, r := range old.all {
		terms[r.limits] = nil
	}
	for _, r := range next.all {
		terms[r.limits] = r.Concurrency
	}
	s.leases.Change(&lease.Change{Rules: next.id, Terms: terms, Plan: plan, Publish: func() { s.rules.Store(next) }})
}

// leaseTerms returns the terms of a lease under all of these rules, and whether
// any of them grants leases. Shadow rules matter only if there are no others.
func leaseTerms(list []*rule) (ruleset.LeaseTerms, bool) {
	for _, shadow := range []bool{false, true} {
		t, ok := ruleset.LeaseTerms{TTL: ruleset.MaxSpan, MaxTTL: ruleset.MaxSpan}, false
		for _, r := range list {
			if c := r.Concurrency; c != nil && (r.Mode == config.Shadow) == shadow {
				t.TTL = min(t.TTL, cmp.Or(c.TTL, config.DefaultTTL))
				t.MaxTTL = min(t.MaxTTL, lease.MaxTTL(c))
				ok = true
			}
		}
		if ok {
			t.TTL = min(t.TTL, t.MaxTTL)
			return t, true
		}
	}
	return ruleset.LeaseTerms{}, false
}

// leaseUnder appends the rules of a list that grant leases.
func leaseUnder(list []*rule, key string, under []lease.Under) []lease.Under {
	for _, r := range list {
		if r.Concurrency != nil {
			under = append(under, lease.Under{Limits: r.limits, Bucket: r.Bucket(key), Shadow: r.Mode == config.Shadow})
		}
	}
	return under
}

// Renew extends a lease: see decider.Decider.
func (s *Server) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	if err := s.enter(ctx, key); err != nil {
		return decider.Lease{}, err
	}
	l, err := s.leases.Renew(key, id, ttl)
	if err == nil || !s.leases.Recovering() {
		return l, err
	}
	m := s.keys.find(key, s.rules.Load()).match
	terms, ok := leaseTerms(m.list)
	if !ok {
		return l, err
	}
	return s.leases.Adopt(key, id, ttl, terms, leaseUnder(m.list, key, nil))
}

// Return ends a lease: see decider.Decider.
func (s *Server) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	if err := s.enter(ctx, key); err != nil {
		return err
	}
	err := s.leases.Return(key, id, o)
	if err == nil || !s.leases.Recovering() {
		return err
	}
	m := s.keys.find(key, s.rules.Load()).match
	if s.leases.Ended(key, id, leaseUnder(m.list, key, nil)) {
		return nil
	}
	return err
}
