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
	for again := (lease.Wait{}); ; {
		rs := s.rules.Load()
		_, m, _ := s.keys.find(req.Key, rs)
		terms, ok := leaseTerms(m.list)
		if !ok {
			return decider.Lease{}, decider.ErrNoLeasing
		}
		again.Rules = rs.id
		l, err := s.leases.Acquire(ctx, &req, terms, leaseUnder(m.list, req.Key, make([]lease.Under, 0, 8)), &again)
		if err != waiting.ErrMoved {
			return l, err
		}
	}
}

// moveLeases ends the waits of requests for leases that other rules grant now. They ask
// again, before later requests.
func (s *Server) moveLeases(old, next *rules) {
	stays := map[string]bool{} // by key
	for _, was := range old.all {
		was.limits.Move(next.id, func(key string) bool {
			is, known := stays[key]
			if !known {
				is = lease.Same(leaseUnder(old.find(key).list, key, nil), leaseUnder(next.find(key).list, key, nil))
				stays[key] = is
			}
			return is
		})
	}
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
func (s *Server) Renew(_ context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	l, err := s.leases.Renew(key, id, ttl)
	if err == nil || !s.leases.Recovering() {
		return l, err
	}
	_, m, _ := s.keys.find(key, s.rules.Load())
	terms, ok := leaseTerms(m.list)
	if !ok {
		return l, err
	}
	return s.leases.Adopt(key, id, ttl, terms, leaseUnder(m.list, key, nil))
}

// Return ends a lease: see decider.Decider.
func (s *Server) Return(_ context.Context, key, id string, o weir.Outcome) error {
	err := s.leases.Return(key, id, o)
	if err == nil || !s.leases.Recovering() {
		return err
	}
	_, m, _ := s.keys.find(key, s.rules.Load())
	if s.leases.Ended(key, id, leaseUnder(m.list, key, nil)) {
		return nil
	}
	return err
}
