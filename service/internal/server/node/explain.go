package node

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Explain reports what a request for the key would get: see decider.Decider.
func (n *Node) Explain(ctx context.Context, key string) (x decider.Explanation, err error) {
	if err := n.Enter(ctx, key); err != nil {
		return decider.Explanation{}, err
	}
	for {
		if x, err = n.explain(ctx, key); !moved(err) {
			return x, err
		}
	}
}

func (n *Node) explain(ctx context.Context, key string) (decider.Explanation, error) {
	x := decider.Explanation{Key: key, Allowed: true}
	m := n.keys.RulesOf(key, n.rules.Load())
	if len(m.List) == 0 {
		if m.Set.Config.Unmatched == "deny" {
			x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, weir.Never
		}
		return x, nil
	}
	x.Rules = make([]decider.RuleState, len(m.List))
	whole, err := n.counts.Look(ctx, m, key, x.Rules)
	switch {
	case err != nil:
		return decider.Explanation{}, err
	case whole != nil:
		return *whole, nil
	}
	if err := n.leases.Look(ctx, m, key, x.Rules); err != nil {
		return decider.Explanation{}, err
	}
	for i, r := range m.List {
		st := &x.Rules[i]
		if st.Rule = r.Ref; st.Used > 0 {
			st.Denied = n.keys.Get(key).Denials()
		}
		if !st.Allowed && r.Mode != config.Shadow && x.Allowed {
			x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, st.RetryAfter
		}
	}
	return x, nil
}

// Reset returns all tokens of a key to its buckets, so that it has its whole limit again, and
// serves the requests that wait for them. It ends debts, too. The result has an element for each
// rule with a rate that counts for the key; there are none if no such rule does. A bucket that keys
// share is full for all of them. Leases, and quotas that requests bring, are not changed.
func (n *Node) Reset(ctx context.Context, key string) (done []decider.Reset, err error) {
	if err := n.Enter(ctx, key); err != nil {
		return nil, err
	}
	for {
		m := n.keys.RulesOf(key, n.rules.Load())
		if len(m.Rated) == 0 {
			return []decider.Reset{}, nil
		}
		if done, err = n.counts.Reset(ctx, m, key); !moved(err) {
			break
		}
	}
	if err == nil {
		n.keys.Get(key).ForgetDenials()
	}
	return done, err
}
