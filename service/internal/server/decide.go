package server

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Decide decides at once: see decider.Decider.
func (s *Server) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if err := s.enterRequest(ctx, req); err != nil {
		return err
	}
	*v = decider.Verdict{At: s.clock.At(req.Now), Answers: v.Answers[:0]}
	rs := s.rules.Load()
	return s.decide(rs, s.keys.Find(req.Key, rs.Set), req, v, true, nil)
}

// decide decides at the recent instant v.At about a request with a key that was found. It
// counts a request that is allowed only if final is set. If w is nil, the request does not
// wait, and the error is nil unless it brings a quota or the rules have no rate.
func (s *Server) decide(rs *version, k rules.Found, req *decider.Request, v *decider.Verdict, final bool, w *wait) error {
	if req.N < 0 {
		panic("server: negative cost")
	}
	if req.Quota != nil {
		return s.decideOwn(rs, k, req, v, final)
	}
	m := k.Match
	if len(m.List) == 0 {
		s.unmatched(rs, req.N, v, final)
		return nil
	}
	if m.LeaseOnly {
		return decider.ErrNoRate
	}
	v.Rule = m.List[0].Ref
	asked := s.ownLimit(req)
	for i := range m.Rated {
		r := rs.at(m.Rated[i])
		own := r.OwnLimit(asked)
		d, why, redeemed := w.redeem(r)
		if !redeemed {
			d = r.take(req.Key, r.fingerprintOf(i, k.Known, req.Key), v.At, req.N, own, req.WantID)
		}
		v.Answers = append(v.Answers, decider.Answer{Decision: d, Rule: r.Ref, At: v.At})
		switch {
		case d.OK:
		case r.Mode == config.Shadow:
			if req.N > 0 {
				r.counts.shadowed.Add(1)
			}
		case redeemed:
			s.deny(rs, k, req, v, why)
			return nil
		case w != nil && d.RetryAfter != weir.Never && req.N > 0:
			if why, err := s.waitUnder(rs, w, r, own, v); err != nil {
				s.giveBack(rs, m, req, v.Answers[:i])
				return err
			} else if why != 0 {
				s.deny(rs, k, req, v, why)
				return nil
			}
		case d.RetryAfter == weir.Never && req.N > 0:
			s.deny(rs, k, req, v, weir.OverBurst)
			return nil
		default:
			s.deny(rs, k, req, v, weir.OverRate)
			return nil
		}
	}
	v.OK, v.Grant = true, rs.grantOf(m, req.N, v)
	if final {
		s.count(rs, k, req, v)
	}
	return nil
}

// Batch decides many requests: see decider.Decider.
func (s *Server) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	if err := s.enterAll(ctx, reqs); err != nil {
		return false, err
	}
	return s.batch(ctx, s.rules.Load(), reqs, all, verdicts, false)
}

// Descriptors decides the descriptors of one request: see decider.Decider.
func (s *Server) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	rs := s.rules.Load()
	rs.DropQuotas(reqs)
	if err := s.enterAll(ctx, reqs); err != nil {
		return false, err
	}
	return s.batch(ctx, rs, reqs, all, verdicts, rs.Replaces())
}

// batch is Batch under some rules. With replaces set, requests with a rule that is replaced by the
// rule of another take no tokens.
func (s *Server) batch(ctx context.Context, rs *version, reqs []decider.Request, all bool, verdicts []decider.Verdict, replaces bool) (ok bool, err error) {
	var few [16]rules.Found
	keys, err := s.keys.FindAll(ctx, reqs, rs.Set, few[:0])
	if err != nil && all {
		return false, err
	}
	reqs, ok = reqs[:len(keys)], err == nil
	if err := s.prepareAll(rs, keys, reqs); err != nil {
		return false, err
	}
	var replaced map[string]bool
	if replaces {
		replaced = rules.Replaced(keys, reqs)
	}
	var at time.Duration
	if len(reqs) > 0 {
		at = s.clock.At(reqs[0].Now)
	}
	for i := range reqs {
		v := &verdicts[i]
		*v = decider.Verdict{At: at, Answers: v.Answers[:0]}
		if len(replaced) > 0 && replaced[keys[i].Name(&reqs[i])] {
			v.OK = true
			continue
		}
		_ = s.decide(rs, keys[i], &reqs[i], v, !all, nil) // no error: the requests are checked
		ok = ok && v.OK
	}
	if !all {
		return ok, err
	}
	for i := range reqs {
		k, req, v := keys[i], &reqs[i], &verdicts[i]
		switch {
		case ok && len(k.List) > 0 && v.Rule == nil: // replaced
		case ok && req.Quota != nil:
			s.countOwn(rs, k, req, v)
		case ok && len(k.List) == 0:
			s.unmatchedAllowed.Add(1)
		case ok:
			s.count(rs, k, req, v)
		case v.OK && req.Quota != nil:
			s.returnOwn(rs, k.Match, req, &v.Answers[0])
			v.Deny(0, 0)
		case v.OK:
			s.giveBack(rs, k.Match, req, v.Answers)
			v.Deny(0, 0)
		}
	}
	return ok, err
}

// Wait waits for missing tokens: see decider.Decider.
func (s *Server) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	*v = decider.Verdict{Answers: v.Answers[:0]}
	if err := s.enterRequest(ctx, req); err != nil {
		return err
	}
	for w := (wait{caller: caller{ctx: ctx, req: *req}}); ; {
		rs := s.rules.Load()
		*v = decider.Verdict{At: s.clock.Now(), Answers: v.Answers[:0], Waited: v.Waited, Place: v.Place}
		err := s.decide(rs, s.keys.Find(req.Key, rs.Set), req, v, true, &w)
		if w.at != nil && w.answer.OK { // no rule has taken the answer
			w.at.Return()
		}
		if err != waiting.ErrMoved {
			return err
		}
		if err := w.follow(v); err != nil {
			return err
		}
	}
}

// ownLimit returns the limit that a request asks for.
func (s *Server) ownLimit(req *decider.Request) int {
	if req.Limit <= 0 || s.cfg.MaxLimit == 0 {
		return 0
	}
	return min(req.Limit, s.cfg.MaxLimit)
}

// unmatched decides about a key that no rule matches.
func (s *Server) unmatched(rs *version, n int, v *decider.Verdict, final bool) {
	if rs.Config.Unmatched == "deny" {
		s.unmatchedDenied.Add(1)
		v.Deny(weir.OverRate, weir.Never)
		return
	}
	if final {
		s.unmatchedAllowed.Add(1)
	}
	v.OK, v.Grant = true, rs.grantOf(new(rules.Match), n, v)
}

// count counts a request that was allowed, unless its cost is zero.
func (s *Server) count(rs *version, k rules.Found, req *decider.Request, v *decider.Verdict) {
	if req.N == 0 {
		return
	}
	fresh := false // it is the first to use tokens
	for i, r := range k.Rated {
		if i == 0 {
			fresh = v.Answers[0].Remaining == r.Within(r.OwnLimit(s.ownLimit(req)))-req.N
		}
		rs.at(r).counts.allowed.add(k.Print)
	}
	k.Known.Count(true, fresh)
}

// deny ends a Verdict with the denial of the rule with the last answer, and returns
// what the rules before it gave.
func (s *Server) deny(rs *version, k rules.Found, req *decider.Request, v *decider.Verdict, why weir.Reason) {
	last := len(v.Answers) - 1
	if req.N > 0 {
		rs.at(k.Rated[last]).counts.denied[why].Add(1)
		k.Known.Count(false, false)
	}
	s.giveBack(rs, k.Match, req, v.Answers[:last])
	v.Deny(why, v.Answers[last].RetryAfter)
}

// giveBack returns the tokens that rules gave to a request that is denied.
func (s *Server) giveBack(rs *version, m *rules.Match, req *decider.Request, answers []decider.Answer) {
	if req.N == 0 || len(answers) == 0 {
		return
	}
	now := s.clock.Now()
	for i := range answers {
		r, a := rs.at(m.Rated[i]), &answers[i]
		if !a.OK {
			continue
		}
		at := a.At
		if r.Algorithm.Resets() && now-at < a.ResetAfter {
			at = now // the same window; it may have begun after the instant of the answer
		}
		r.settle(req.Key, at, req.N, 0)
	}
}
