package server

import (
	"context"
	"errors"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/redisscript"
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

// look asks for the buckets and the leases of all rules. Only requests that wait at this node count
// as waiting.
func (s stored) look(ctx context.Context, rs *version, m *rules.Match, key string, states []decider.RuleState) (whole *decider.Explanation, err error) {
	a, err := s.prepare(&asked{ask: ask{Found: rules.Found{Match: m}, rs: rs, req: &decider.Request{Key: key}}}, nil)
	if err == nil && len(a.buckets) > 0 {
		err = s.ask(ctx, a)
	}
	if err != nil {
		return nil, s.unavailable(ctx, err)
	}
	rated := 0
	for i, r := range rs.list(m.List) {
		st := &states[i]
		if st.Allowed = true; r.stored != nil {
			at, b := a.bucket(rated)
			*st = rateState(a.decision(rated), a.reply.Used(at, &b.quota))
			rated++
		}
		if st.Lease, err = s.leaseState(ctx, m, r.Rule, key); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// leaseState returns the state of the leases of a key under a rule; nil without a concurrency.
func (s *Shared) leaseState(ctx context.Context, m *rules.Match, r *rules.Rule, key string) (*decider.LeaseState, error) {
	if r.Concurrency == nil {
		return nil, nil
	}
	l := sharedLease{key: key, asks: []leaseAsk{s.leaseAsk(m, r, key)}}
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
		st := rule.stored
		b := bucketAsk{key: s.storedKey(rule.Bucket(r.Key), st.name), quota: st.quota}
		s.tell(&b, redisscript.Take{N: r.Used, Debt: rule.maxDebt(), Most: st.most})
	}
}
