package server

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Explain reports what a request for the key would get: see decider.Decider. The
// error is nil.
func (s *Server) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	if err := s.enter(ctx, key); err != nil {
		return decider.Explanation{}, err
	}
	x := decider.Explanation{Key: key, Allowed: true}
	rs := s.rules.Load()
	list := s.keys.RulesOf(key, rs.Set).List
	e := s.keys.Get(key)
	if len(list) == 0 && rs.Config.Unmatched == "deny" {
		x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, weir.Never
	}
	for _, of := range list {
		r := rs.at(of)
		bucket := r.Bucket(key)
		st := decider.RuleState{Rule: r.Ref, Allowed: true, Waiting: r.queue.Len(bucket), Lease: r.limits.State(bucket, r.Route(bucket), r.Concurrency)}
		if r.buckets != nil {
			d := r.take(key, r.fingerprint(key), s.clock.Now(), 0, 0, false)
			st.Allowed, st.Remaining, st.ResetAfter, st.RetryAfter = d.OK, d.Remaining, d.ResetAfter, d.RetryAfter
			st.Used = r.buckets.Used(bucket)
			if st.Used > 0 {
				st.Denied = e.Denials()
			}
			if !d.OK && r.Mode != config.Shadow && x.Allowed {
				x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, d.RetryAfter
			}
		}
		x.Rules = append(x.Rules, st)
	}
	return x, nil
}
