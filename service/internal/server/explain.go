package server

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Explain reports what a request for the key would get: see decider.Decider.
func (s *Server) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	if err := s.enter(ctx, key); err != nil {
		return decider.Explanation{}, err
	}
	x := decider.Explanation{Key: key, Allowed: true}
	rs := s.rules.Load()
	m := s.keys.RulesOf(key, rs.Set)
	if len(m.List) == 0 {
		if rs.Config.Unmatched == "deny" {
			x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, weir.Never
		}
		return x, nil
	}
	x.Rules = make([]decider.RuleState, len(m.List))
	switch whole, err := s.counter.look(ctx, rs, m, key, x.Rules); {
	case err != nil:
		return decider.Explanation{}, err
	case whole != nil:
		return *whole, nil
	}
	for i, r := range m.List {
		st := &x.Rules[i]
		if st.Rule = r.Ref; st.Used > 0 {
			st.Denied = s.keys.Get(key).Denials()
		}
		if !st.Allowed && r.Mode != config.Shadow && x.Allowed {
			x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, st.RetryAfter
		}
	}
	return x, nil
}

// rateState returns the state of a rule with a rate.
func rateState(d weir.Decision, used int) decider.RuleState {
	return decider.RuleState{Allowed: d.OK, Remaining: d.Remaining, ResetAfter: d.ResetAfter, RetryAfter: d.RetryAfter, Used: used}
}
