package server

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// ownRule is the rule in the answer to a request that brings a quota.
var ownRule = &decider.RuleRef{Name: "own quota"}

// compileOwn returns a quota as its buckets need it, or decider.ErrQuota.
func compileOwn(q *decider.Quota) (quota.Own, error) {
	interval, err := q.Interval()
	return quota.Own{Interval: interval, Limit: q.Limit()}, err
}

// takeOwn takes the tokens of a request by the quota that it brings.
func (s *Server) takeOwn(rs *version, k rules.Found, req *decider.Request, at time.Duration) (weir.Decision, error) {
	if b, bucket := rs.override(k.Match, req); b != nil {
		return quota.TakeWithin(b, bucket, at, req.N, req.Quota.Count), nil
	}
	if req.Quota.Empty() {
		return weir.Decision{RetryAfter: weir.Never}, nil
	}
	own, err := compileOwn(req.Quota)
	if err != nil {
		return weir.Decision{}, err
	}
	if k.Own == 0 {
		k.Own = s.own.Fingerprint(req.Key, own)
	}
	return s.own.Take(k.Own, own, at, req.N), nil
}

// returnOwn returns the tokens that takeOwn gave.
func (s *Server) returnOwn(rs *version, m *rules.Match, req *decider.Request, a *decider.Answer) {
	if !a.OK || req.N == 0 { // only the shadow mode allowed the request, or it took nothing
		return
	}
	if b, bucket := rs.override(m, req); b != nil {
		b.Settle(bucket, a.At, req.N, 0)
		return
	}
	if own, err := compileOwn(req.Quota); err == nil {
		s.own.Return(s.own.Fingerprint(req.Key, own), own, req.N)
	}
}

// decideOwn decides a request by the quota that it brings, instead of the rates of the
// rules. These count its outcome.
func (s *Server) decideOwn(rs *version, k rules.Found, req *decider.Request, v *decider.Verdict, final bool) error {
	m := k.Match
	if !m.AllowsOwn() {
		return decider.ErrOwnQuota
	}
	d, err := s.takeOwn(rs, k, req, v.At)
	if err != nil {
		return err
	}
	if len(m.List) > 0 {
		v.Rule = m.List[0].Ref
	}
	v.Answers = append(v.Answers, decider.Answer{Decision: d, Rule: ownRule, At: v.At})
	switch {
	case d.OK:
	case req.Quota.Unit == 0 && m.ShadowsOwn():
		for _, r := range m.Rated {
			if req.N > 0 {
				rs.at(r).counts.shadowed.Add(1)
			}
		}
	default:
		why := weir.OverRate
		if d.RetryAfter == weir.Never {
			why = weir.OverBurst
		}
		if req.N > 0 {
			s.countOwnDenied(rs, k, why)
		}
		v.Deny(why, d.RetryAfter)
		return nil
	}
	v.OK = true
	if final {
		s.countOwn(rs, k, req, v)
	}
	return nil
}

// countOwn counts a request that its own quota allowed, unless its cost is zero.
func (s *Server) countOwn(rs *version, k rules.Found, req *decider.Request, v *decider.Verdict) {
	switch {
	case req.N == 0:
		return
	case len(k.List) == 0:
		s.unmatchedAllowed.Add(1)
	}
	for _, r := range k.Rated {
		rs.at(r).counts.allowed.add(k.Print)
	}
	k.Known.Count(true, v.Answers[0].Remaining == req.Quota.Limit()-req.N)
}

func (s *Server) countOwnDenied(rs *version, k rules.Found, why weir.Reason) {
	if len(k.List) == 0 {
		s.unmatchedOverOwn.Add(1)
	}
	for _, r := range k.Rated {
		rs.at(r).counts.denied[why].Add(1)
	}
	k.Known.Count(false, false)
}

// prepareAll finds the buckets of the quotas that requests bring. It returns an error if one
// of them is not allowed, or not valid, or if a request asks for a rate where there is none.
func (s *Server) prepareAll(rs *version, keys []rules.Found, reqs []decider.Request) error {
	for i := range reqs {
		req, k := &reqs[i], &keys[i]
		if k.Unrated(req) {
			return decider.ErrNoRate
		}
		if req.Quota == nil {
			continue
		}
		if !rs.overrides.counts(req.Quota) {
			own, err := compileOwn(req.Quota)
			if err != nil {
				return err
			}
			k.Own = s.own.Fingerprint(req.Key, own)
			s.own.Prefetch(k.Own)
		}
		if !k.AllowsOwn() {
			return decider.ErrOwnQuota
		}
	}
	return nil
}
