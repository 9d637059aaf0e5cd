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

// foldOwn makes the verdict of a request that brings a quota, which decides instead of the rates of
// the rules. These count its outcome.
func (s *Server) foldOwn(a *ask, final bool) {
	v, n := a.v, a.req.N
	v.Rule = a.First()
	switch d := &v.Answers[0]; {
	case d.OK:
	case a.shadowsOwn():
		for _, r := range a.Rated {
			if n > 0 {
				r.Tally.Shadowed.Add(1)
			}
		}
	default:
		why := v.Reason
		if why == 0 {
			why = reasonOf(d.Decision)
		}
		if n > 0 {
			s.countOwnDenied(a, why)
		}
		v.Deny(why, d.RetryAfter)
		return
	}
	v.OK = true
	if final {
		s.countOwn(a)
	}
}

// reasonOf returns the reason of a denial by a rate.
func reasonOf(d weir.Decision) weir.Reason {
	if d.RetryAfter == weir.Never {
		return weir.OverBurst
	}
	return weir.OverRate
}

// countOwn counts a request that its own quota allowed, unless its cost is zero.
func (s *Server) countOwn(a *ask) {
	switch {
	case a.req.N == 0:
		return
	case len(a.List) == 0:
		s.unmatchedAllowed.Add(1)
	}
	for _, r := range a.Rated {
		r.Tally.Allowed.Add(a.Print)
	}
	a.Known.Count(true, a.v.Answers[0].Remaining == a.req.Quota.Limit()-a.req.N)
}

func (s *Server) countOwnDenied(a *ask, why weir.Reason) {
	if len(a.List) == 0 {
		s.unmatchedOverOwn.Add(1)
	}
	for _, r := range a.Rated {
		r.Tally.Denied[why].Add(1)
	}
	a.Known.Count(false, false)
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
