package server

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Decide decides at once: see decider.Decider. The error is nil.
func (s *Server) Decide(_ context.Context, req *decider.Request, v *decider.Verdict) error {
	s.decide(s.rules.Load(), req, v, s.clock.Now(), true)
	return nil
}

// decide decides at a recent instant. It counts a request that is allowed only if
// final is set.
func (s *Server) decide(rs *rules, req *decider.Request, v *decider.Verdict, at time.Duration, final bool) {
	checkCost(req.N)
	*v = decider.Verdict{At: at, Answers: v.Answers[:0]}
	e, list, print := s.keys.find(req.Key, rs)
	if len(list) == 0 {
		s.unmatched(rs, req.N, v, final)
		return
	}
	asked := s.ownLimit(req)
	for i, r := range list {
		if r.buckets == nil {
			continue
		}
		d := r.take(req.Key, e.fingerprintOf(i, r, req.Key), at, req.N, r.OwnLimit(asked))
		v.Answers = append(v.Answers, decider.Answer{Decision: d, Rule: &r.Rule.Rule, At: at})
		if !d.OK && s.deny(list, r, e, req, v, d) {
			return
		}
	}
	v.OK, v.Grant = true, grantOf(list, req.N, v)
	if final {
		s.count(list, e, print, req, v)
	}
}

func checkCost(n int) {
	if n < 0 {
		panic("server: negative cost")
	}
}

// Batch decides many requests: see decider.Decider. The error is nil.
func (s *Server) Batch(_ context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	ok = true
	rs, at := s.rules.Load(), s.clock.Now()
	for i := range reqs {
		s.decide(rs, &reqs[i], &verdicts[i], at, !all)
		ok = ok && verdicts[i].OK
	}
	if !all {
		return ok, nil
	}
	for i := range reqs {
		req, v := &reqs[i], &verdicts[i]
		e, list, print := s.keys.find(req.Key, rs)
		switch {
		case ok && len(list) == 0:
			s.unmatchedAllowed.Add(1)
		case ok:
			s.count(list, e, print, req, v)
		case v.OK:
			s.giveBack(list, req, v.Answers)
			v.Deny(0, 0)
		}
	}
	return ok, nil
}

// Wait waits for missing tokens: see decider.Decider.
func (s *Server) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	checkCost(req.N)
	*v = decider.Verdict{Answers: v.Answers[:0]}
	for arrival := uint64(0); ; {
		if err := s.wait(ctx, req, v, &arrival); err != waiting.ErrMoved {
			return err
		}
		*v = decider.Verdict{Answers: v.Answers[:0], Waited: v.Waited, Place: v.Place}
	}
}

// wait waits under the present rules. arrival is 0, or the number of a request that
// has waited before the rules changed: see quota.Request.
func (s *Server) wait(ctx context.Context, req *decider.Request, v *decider.Verdict, arrival *uint64) error {
	rs := s.rules.Load()
	v.At = s.clock.Now()
	e, list, print := s.keys.find(req.Key, rs)
	if len(list) == 0 {
		s.unmatched(rs, req.N, v, true)
		return nil
	}
	asked := s.ownLimit(req)
	for i, r := range list {
		if r.buckets == nil {
			continue
		}
		own := r.OwnLimit(asked)
		d := r.take(req.Key, e.fingerprintOf(i, r, req.Key), v.At, req.N, own)
		v.Answers = append(v.Answers, decider.Answer{Decision: d, Rule: &r.Rule.Rule, At: v.At})
		if !d.OK && r.Mode != config.Shadow && d.RetryAfter != weir.Never && req.N > 0 {
			why, err := s.waitUnder(ctx, r, own, req, v, arrival)
			if err != nil {
				s.giveBack(list, req, v.Answers[:len(v.Answers)-1])
				return err
			}
			answer := &v.Answers[len(v.Answers)-1]
			if why != 0 {
				s.end(list, r, e, req, v, why, answer.RetryAfter)
				return nil
			}
			d = answer.Decision
		}
		if !d.OK && s.deny(list, r, e, req, v, d) {
			return nil
		}
	}
	v.OK, v.Grant = true, grantOf(list, req.N, v)
	s.count(list, e, print, req, v)
	return nil
}

// waitUnder waits for the tokens of the rule with the last answer. It returns the
// reason of a refusal, and sets RetryAfter in the answer.
func (s *Server) waitUnder(ctx context.Context, r *rule, ownLimit int, req *decider.Request, v *decider.Verdict, arrival *uint64) (weir.Reason, error) {
	size := config.QueueSize(r.Queue)
	if req.OwnQueue && s.cfg.MaxQueue > 0 {
		size = min(req.Queue, s.cfg.MaxQueue)
	}
	first := *arrival == 0
	res, err := r.queue.Wait(ctx, &quota.Request{
		Bucket: r.Bucket(req.Key), N: req.N, OwnLimit: ownLimit, Limit: r.limitFor(ownLimit), Stats: &r.counts.queue,
		MaxQueue: size, MaxWait: r.MaxWait, Arrival: *arrival, OnWait: req.OnWait,
	})
	*arrival = res.Arrival
	v.Waited += res.Waited
	if first {
		v.Place += res.Place
	}
	answer := &v.Answers[len(v.Answers)-1]
	switch {
	case err != nil:
	case res.Reason != 0:
		answer.RetryAfter = res.RetryAfter
	default:
		v.At = s.clock.Now()
		answer.Decision, answer.At, *arrival = res.Decision, v.At, 0
	}
	return res.Reason, err
}

// ownLimit returns the limit that a request asks for.
func (s *Server) ownLimit(req *decider.Request) int {
	if req.Limit <= 0 || s.cfg.MaxLimit == 0 {
		return 0
	}
	return min(req.Limit, s.cfg.MaxLimit)
}

// unmatched decides about a key that no rule matches.
func (s *Server) unmatched(rs *rules, n int, v *decider.Verdict, final bool) {
	if rs.Config.Unmatched == "deny" {
		s.unmatchedDenied.Add(1)
		v.Deny(weir.OverRate, weir.Never)
		return
	}
	if final {
		s.unmatchedAllowed.Add(1)
	}
	v.OK, v.Grant = true, grantOf(nil, n, v)
}

// count counts a request that was allowed, unless its cost is zero.
func (s *Server) count(list []*rule, e *knownKey, print uint64, req *decider.Request, v *decider.Verdict) {
	if req.N == 0 {
		return
	}
	fresh, first := false, true // fresh: it is the first to use tokens
	for _, r := range list {
		if r.buckets == nil {
			continue
		}
		if first {
			fresh, first = v.Answers[0].Remaining == r.Within(r.OwnLimit(s.ownLimit(req)))-req.N, false
		}
		r.counts.allowed.add(print)
	}
	e.count(true, fresh)
}

// deny ends a Verdict with the denial of a rule, and reports true. In shadow mode
// it counts the denial, and reports false.
func (s *Server) deny(list []*rule, r *rule, e *knownKey, req *decider.Request, v *decider.Verdict, d weir.Decision) bool {
	if r.Mode == config.Shadow {
		if req.N > 0 {
			r.counts.shadowed.Add(1)
		}
		return false
	}
	why := weir.OverRate
	if d.RetryAfter == weir.Never && req.N > 0 {
		why = weir.OverBurst
	}
	s.end(list, r, e, req, v, why, d.RetryAfter)
	return true
}

// end ends a Verdict with the denial of the rule with the last answer, and returns
// what the rules before it gave.
func (s *Server) end(list []*rule, r *rule, e *knownKey, req *decider.Request, v *decider.Verdict, why weir.Reason, retryAfter time.Duration) {
	if req.N > 0 {
		r.counts.denied[why].Add(1)
		e.count(false, false)
	}
	s.giveBack(list, req, v.Answers[:len(v.Answers)-1])
	v.Deny(why, retryAfter)
}

// giveBack returns the tokens that rules gave to a request that is denied. The
// answers belong to the first rules of the list that have buckets.
func (s *Server) giveBack(list []*rule, req *decider.Request, answers []decider.Answer) {
	if req.N == 0 || len(answers) == 0 {
		return
	}
	now := s.clock.Now()
	for _, r := range list {
		if r.buckets == nil {
			continue
		}
		if a := &answers[0]; a.OK {
			at := a.At
			if r.Algorithm == config.Fixed && now-at < a.ResetAfter {
				at = now // the same window; it may have begun after the instant of the answer
			}
			r.settle(req.Key, at, now-a.At-slack(r, a, req.N), req.N, 0)
		}
		if answers = answers[1:]; len(answers) == 0 {
			return
		}
	}
}
