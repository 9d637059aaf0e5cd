package server

import (
	"context"
	"errors"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/server/counts"
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

// Look asks for the buckets of all rules: see counts.Counts.
func (s stored) Look(ctx context.Context, m *rules.Match, key string, states []decider.RuleState) (*decider.Explanation, error) {
	a, err := s.lookAt(ctx, m, key)
	if err != nil {
		return nil, err
	}
	rated := 0
	for i, r := range m.List {
		st := &states[i]
		if st.Allowed = true; r.Rated() {
			at, b := a.bucket(rated)
			*st = counts.StateOf(a.decision(rated), a.reply.Used(at, &b.quota))
			rated++
		}
	}
	return nil, nil
}

// lookAt asks for the buckets of a key.
func (s *Shared) lookAt(ctx context.Context, m *rules.Match, key string) (*asking, error) {
	a, err := s.prepare(&counts.Asked{Ask: counts.Ask{Found: rules.Found{Match: m}, Req: &decider.Request{Key: key}}}, nil)
	if err == nil && len(a.buckets) > 0 {
		err = s.ask(ctx, a)
	}
	return a, s.unavailable(ctx, err)
}

// Reset returns all tokens of a key to its buckets in the store, and to the node's share: see counts.Counts.
func (s stored) Reset(ctx context.Context, m *rules.Match, key string) ([]decider.Reset, error) {
	a, err := s.lookAt(ctx, m, key)
	if err != nil {
		return nil, err
	}
	done := []decider.Reset{}
	for i, r := range m.Rated {
		at, b := a.bucket(i)
		c := &redislink.Call{Script: deleteScript, Keys: []string{b.key}, Args: []any{1}, Look: func() []any { return []any{0} }}
		if _, err := s.link.Lane(b.key).Ask(ctx, c); err != nil {
			return done, s.unavailable(ctx, err)
		}
		done = append(done, decider.Reset{Rule: r.Name, Returned: max(a.reply.Used(at, &b.quota), 0)})
	}
	_, err = s.Counts.Reset(ctx, m, key)
	return done, err
}

// deleteScript deletes a bucket: a full bucket is none.
var deleteScript = redislink.NewScript(`if ARGV[1] == '1' then return {redis.call('DEL', KEYS[1])} end return {0}`)

// Look asks for the leases of all rules: see node.Leases. Only requests that wait at this node count
// as waiting.
func (s storedLeases) Look(ctx context.Context, m *rules.Match, key string, states []decider.RuleState) (err error) {
	for i, r := range m.List {
		if states[i].Lease, err = s.leaseState(ctx, m, r, key); err != nil {
			return err
		}
	}
	return nil
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
	set := s.Set()
	for i := range x.Reports {
		if r := &x.Reports[i]; r.Used > 0 {
			s.tellUsed(set, r)
		}
	}
	return s.Server.Exchange(ctx, x, got)
}

// tellUsed charges the tokens that a leaf has used in the store.
func (s *Shared) tellUsed(set *rules.Set, r *leaf.Report) {
	for _, rule := range s.keys.Find(r.Key, set).Rated {
		st := s.storedRule(set, rule)
		b := bucketAsk{key: s.storedKey(rule.Bucket(r.Key), st.name), quota: st.quota}
		s.tell(&b, redisscript.Take{N: r.Used, Debt: counts.MaxDebt(rule), Most: st.most})
	}
}
