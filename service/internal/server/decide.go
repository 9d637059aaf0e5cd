package server

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Decide decides at once: see decider.Decider.
func (s *Server) Decide(_ context.Context, req *decider.Request, v *decider.Verdict) error {
	*v = decider.Verdict{At: s.clock.Now(), Answers: v.Answers[:0]}
	return s.decide(s.rules.Load(), req, v, true, nil)
}

// decide decides at the recent instant v.At. It counts a request that is allowed only
// if final is set. If w is nil, the request does not wait, and the error is nil unless it
// brings a quota.
func (s *Server) decide(rs *rules, req *decider.Request, v *decider.Verdict, final bool, w *wait) error {
	if req.N < 0 {
		panic("server: negative cost")
	}
	e, m, print := s.keys.find(req.Key, rs)
	if req.Quota != nil {
		return s.decideOwn(rs, e, m, print, req, v, final)
	}
	if len(m.list) == 0 {
		s.unmatched(rs, req.N, v, final)
		return nil
	}
	v.Rule = m.list[0].stated
	asked := s.ownLimit(req)
	for i, r := range m.rated {
		own := r.OwnLimit(asked)
		d, why, redeemed := w.redeem(r)
		if !redeemed {
			d = r.take(req.Key, e.fingerprintOf(i, r, req.Key), v.At, req.N, own)
		}
		v.Answers = append(v.Answers, decider.Answer{Decision: d, Rule: r.stated, At: v.At})
		switch {
		case d.OK:
		case r.Mode == config.Shadow:
			if req.N > 0 {
				r.counts.shadowed.Add(1)
			}
		case redeemed:
			s.deny(m, e, req, v, why)
			return nil
		case w != nil && d.RetryAfter != weir.Never && req.N > 0:
			if why, err := s.waitUnder(rs, w, r, own, v); err != nil {
				s.giveBack(m, req, v.Answers[:i])
				return err
			} else if why != 0 {
				s.deny(m, e, req, v, why)
				return nil
			}
		case d.RetryAfter == weir.Never && req.N > 0:
			s.deny(m, e, req, v, weir.OverBurst)
			return nil
		default:
			s.deny(m, e, req, v, weir.OverRate)
			return nil
		}
	}
	v.OK, v.Grant = true, grantOf(m, req.N, v)
	if final {
		s.count(m, e, print, req, v)
	}
	return nil
}

// batchStep is how many bytes of keys a batch decides before it looks again whether its
// caller has left.
const batchStep = 4 << 10

// Batch decides many requests: see decider.Decider.
func (s *Server) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	return s.batch(ctx, s.rules.Load(), reqs, all, verdicts, nil)
}

// Descriptors decides the descriptors of one request: see decider.Decider.
func (s *Server) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	rs := s.rules.Load()
	if tree := rs.Config.Descriptors; tree != nil {
		for i := range reqs {
			if reqs[i].Quota != nil && !tree.Knows(reqs[i].Key) {
				reqs[i].Quota = nil
			}
		}
	}
	var replaced map[string]bool
	if rs.Replaces() {
		replaced = map[string]bool{}
		for i := range reqs {
			if reqs[i].Quota != nil {
				continue
			}
			_, m, _ := s.keys.find(reqs[i].Key, rs)
			for _, r := range m.list {
				for _, name := range r.Descriptor.Replaces {
					replaced[name] = true
				}
			}
		}
	}
	return s.batch(ctx, rs, reqs, all, verdicts, replaced)
}

// isReplaced reports whether the rule of a key has one of the names.
func (s *Server) isReplaced(req *decider.Request, rs *rules, names map[string]bool) bool {
	_, m, _ := s.keys.find(req.Key, rs)
	return req.Quota == nil && len(m.list) > 0 && m.list[0].Descriptor.Name != "" && names[m.list[0].Descriptor.Name]
}

// batch is Batch under some rules. Requests whose rule has one of the names of replaced
// take no tokens.
func (s *Server) batch(ctx context.Context, rs *rules, reqs []decider.Request, all bool, verdicts []decider.Verdict, replaced map[string]bool) (ok bool, err error) {
	ok = true
	at, step := s.clock.Now(), 0
	if err = s.checkOwn(rs, reqs); err != nil {
		return false, err
	}
	for i := range reqs {
		if step += len(reqs[i].Key); step > batchStep {
			if step, err = 0, ctx.Err(); err != nil {
				reqs, ok = reqs[:i], false
				break
			}
		}
		v := &verdicts[i]
		*v = decider.Verdict{At: at, Answers: v.Answers[:0]}
		if len(replaced) > 0 && s.isReplaced(&reqs[i], rs, replaced) {
			v.OK = true
			continue
		}
		_ = s.decide(rs, &reqs[i], v, !all, nil) // no error: the quotas are checked
		ok = ok && v.OK
	}
	if !all {
		return ok, err
	}
	for i := range reqs {
		req, v := &reqs[i], &verdicts[i]
		e, m, print := s.keys.find(req.Key, rs)
		switch {
		case ok && len(m.list) > 0 && v.Rule == nil: // replaced
		case ok && req.Quota != nil:
			s.countOwn(m, e, print, req, v)
		case ok && len(m.list) == 0:
			s.unmatchedAllowed.Add(1)
		case ok:
			s.count(m, e, print, req, v)
		case v.OK && req.Quota != nil:
			s.returnOwn(rs, m, req, &v.Answers[0])
			v.Deny(0, 0)
		case v.OK:
			s.giveBack(m, req, v.Answers)
			v.Deny(0, 0)
		}
	}
	return ok, err
}

// Wait waits for missing tokens: see decider.Decider.
func (s *Server) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	*v = decider.Verdict{Answers: v.Answers[:0]}
	for w := (wait{caller: caller{ctx: ctx, req: *req}}); ; {
		rs := s.rules.Load()
		*v = decider.Verdict{At: s.clock.Now(), Answers: v.Answers[:0], Waited: v.Waited, Place: v.Place}
		err := s.decide(rs, req, v, true, &w)
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
func (s *Server) unmatched(rs *rules, n int, v *decider.Verdict, final bool) {
	if rs.Config.Unmatched == "deny" {
		s.unmatchedDenied.Add(1)
		v.Deny(weir.OverRate, weir.Never)
		return
	}
	if final {
		s.unmatchedAllowed.Add(1)
	}
	v.OK, v.Grant = true, grantOf(new(match), n, v)
}

// count counts a request that was allowed, unless its cost is zero.
func (s *Server) count(m *match, e *knownKey, print uint64, req *decider.Request, v *decider.Verdict) {
	if req.N == 0 {
		return
	}
	fresh := false // it is the first to use tokens
	for i, r := range m.rated {
		if i == 0 {
			fresh = v.Answers[0].Remaining == r.Within(r.OwnLimit(s.ownLimit(req)))-req.N
		}
		r.counts.allowed.add(print)
	}
	e.count(true, fresh)
}

// deny ends a Verdict with the denial of the rule with the last answer, and returns
// what the rules before it gave.
func (s *Server) deny(m *match, e *knownKey, req *decider.Request, v *decider.Verdict, why weir.Reason) {
	last := len(v.Answers) - 1
	if req.N > 0 {
		m.rated[last].counts.denied[why].Add(1)
		e.count(false, false)
	}
	s.giveBack(m, req, v.Answers[:last])
	v.Deny(why, v.Answers[last].RetryAfter)
}

// giveBack returns the tokens that rules gave to a request that is denied.
func (s *Server) giveBack(m *match, req *decider.Request, answers []decider.Answer) {
	if req.N == 0 || len(answers) == 0 {
		return
	}
	now := s.clock.Now()
	for i := range answers {
		r, a := m.rated[i], &answers[i]
		if !a.OK {
			continue
		}
		at := a.At
		if r.Algorithm.Resets() && now-at < a.ResetAfter {
			at = now // the same window; it may have begun after the instant of the answer
		}
		r.settle(req.Key, at, now-a.At-slack(r, a, req.N), req.N, 0)
	}
}
