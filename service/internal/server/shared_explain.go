package server

import (
	"context"
	"errors"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// errStore is the error of calls that only the store can answer.
var errStore = errors.New("the store of shared limits does not answer")

// unavailable returns the error of a call that only the store can answer.
func (s *Shared) unavailable(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		return errStore
	}
	return err
}

// Explain reports what a request for the key would get: see decider.Decider. Only
// requests that wait at this node count as waiting.
func (s *Shared) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	rs := s.rules.Load()
	m := s.keys.RulesOf(key, rs.Set)
	x := decider.Explanation{Key: key, Allowed: true}
	if len(m.List) == 0 && rs.Config.Unmatched == "deny" {
		x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, weir.Never
	}
	a, err := s.prepare(&asked{ask: ask{Found: rules.Found{Match: m}, rs: rs, req: &decider.Request{Key: key}}}, nil)
	if err == nil && len(a.buckets) > 0 {
		one := [1]*asking{a}
		if err = s.begin(ctx, one[:]); err == nil {
			err = s.finish(ctx, one[:])
		}
	}
	if err != nil {
		return x, s.unavailable(ctx, err)
	}
	rated := 0
	for _, r := range rs.list(m.List) {
		st := decider.RuleState{Rule: r.Ref, Allowed: true}
		if st.Lease, err = s.leaseState(ctx, r, key); err != nil {
			return x, err
		}
		if r.stored != nil {
			s.explainRate(a, rated, key, &st)
			rated++
		}
		if !st.Allowed && r.Mode != config.Shadow && x.Allowed {
			x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, st.RetryAfter
		}
		x.Rules = append(x.Rules, st)
	}
	return x, nil
}

// explainRate sets the state of the bucket with index i.
func (s *Shared) explainRate(a *asking, i int, key string, st *decider.RuleState) {
	at, b := a.bucket(i)
	d := a.decision(i)
	st.Allowed, st.Remaining, st.ResetAfter, st.RetryAfter = d.OK, d.Remaining, d.ResetAfter, d.RetryAfter
	st.Used = a.reply.Used(at, &b.quota)
	if st.Used > 0 {
		st.Denied = s.keys.Get(key).Denials()
	}
}

// leaseState returns the state of the leases of a key under a rule; nil without a concurrency.
func (s *Shared) leaseState(ctx context.Context, r *rule, key string) (*decider.LeaseState, error) {
	if r.Concurrency == nil {
		return nil, nil
	}
	l := sharedLease{key: key, asks: []leaseAsk{s.leaseAsk(r, key)}}
	reply, err := s.askLease(ctx, &l, redisscript.LookLease)
	if err != nil {
		return nil, s.unavailable(ctx, err)
	}
	return &decider.LeaseState{Limit: int(r.Concurrency.Limit), Inflight: int(reply.Held[0]), Waiting: s.held.waitingFor(l.asks[0].key)}, nil
}

// Exchange shares rates out among leaves: see decider.Decider. What it shares out is this
// node's share of the limits; what leaves have used is charged in the store.
func (s *Shared) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	rs := s.rules.Load()
	for i := range x.Reports {
		if r := &x.Reports[i]; r.Used > 0 {
			s.tellUsed(rs, r)
		}
	}
	return s.Server.Exchange(ctx, x, got)
}

// tellUsed charges the tokens that a leaf has used in the store.
func (s *Shared) tellUsed(rs *version, r *leaf.Report) {
	for _, rule := range rs.list(s.keys.Find(r.Key, rs.Set).Rated) {
		st, debt := rule.stored, rule.Limit()
		if rule.MaxDebt != nil {
			debt = *rule.MaxDebt
		}
		b := bucketAsk{key: s.storedKey(rule.Bucket(r.Key), st.name), quota: st.quota}
		s.tell(&b, redisscript.Take{N: r.Used, Debt: debt, Most: st.most})
	}
}
