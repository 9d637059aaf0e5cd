package server

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
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
		k := s.keys.Find(req.Key, rs.Set)
		l, err := s.leases.Acquire(ctx, &req, leasePlan(rs, k.Match, req.Key, make([]lease.Under, 0, 8)), &again)
		if err != waiting.ErrMoved {
			s.refusedLeases.count(k, err)
			return l, err
		}
	}
}

// leasePlan returns the rules of a match that grant leases of a key, appended to under.
func leasePlan(rs *version, m *rules.Match, key string, under []lease.Under) lease.Plan {
	terms, _ := leaseTerms(m.List)
	return lease.NewPlan(rs.ID, terms, rs.leaseUnder(m, key, under))
}

// publish puts rules into force. Requests that wait for leases go on to wait under these.
func (s *Server) publish(old, next *version) {
	plans := map[string]lease.Plan{}
	plan := func(key string) lease.Plan {
		p, known := plans[key]
		if !known {
			p = leasePlan(next, next.Find(key), key, nil)
			plans[key] = p
		}
		return p
	}
	for _, key := range s.leases.Waiting() { // most keys, without blocking the requests
		plan(key)
	}
	terms := map[*lease.Limits]*config.Concurrency{}
	for _, r := range old.rules {
		terms[r.limits] = nil
	}
	for _, r := range next.rules {
		terms[r.limits] = r.Concurrency
	}
	s.leases.Change(&lease.Change{Rules: next.ID, Terms: terms, Plan: plan, Publish: func() { s.rules.Store(next) }})
}

// leaseTerms returns the terms of a lease under all of these rules, and whether
// any of them grants leases. Shadow rules matter only if there are no others.
func leaseTerms(list []*rules.Rule) (rules.LeaseTerms, bool) {
	for _, shadow := range []bool{false, true} {
		t, ok := rules.LeaseTerms{TTL: rules.MaxSpan, MaxTTL: rules.MaxSpan}, false
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
	return rules.LeaseTerms{}, false
}

// leaseUnder appends the rules of a match that grant leases.
func (rs *version) leaseUnder(m *rules.Match, key string, under []lease.Under) []lease.Under {
	for _, r := range m.List {
		if r.Concurrency != nil {
			under = append(under, lease.Under{Limits: rs.at(r).limits, Bucket: r.Bucket(key), Shadow: r.Mode == config.Shadow})
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
	rs := s.rules.Load()
	m := s.keys.Find(key, rs.Set).Match
	terms, ok := leaseTerms(m.List)
	if !ok {
		return l, err
	}
	return s.leases.Adopt(key, id, ttl, terms, rs.leaseUnder(m, key, nil))
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
	rs := s.rules.Load()
	m := s.keys.Find(key, rs.Set).Match
	if s.leases.Ended(key, id, rs.leaseUnder(m, key, nil)) {
		return nil
	}
	return err
}
