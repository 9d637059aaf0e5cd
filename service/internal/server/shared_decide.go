package server

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Decide decides at once: see decider.Decider.
func (s *Shared) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	rs := s.rules.Load()
	a, err := s.prepare(rs, s.keys.Find(req.Key, rs.Set), req, nil)
	if err != nil {
		return err
	}
	if len(a.buckets) == 0 {
		return s.Server.Decide(ctx, req, v)
	}
	one := [1]*asking{a}
	if err = s.begin(ctx, one[:]); err == nil {
		err = s.finish(ctx, one[:])
	}
	return s.conclude(ctx, a, err, v)
}

// conclude sets the Verdict of an asking that has ended with an error, or with a reply.
func (s *Shared) conclude(ctx context.Context, a *asking, err error, v *decider.Verdict) error {
	*v = decider.Verdict{At: s.clock.Now(), Answers: v.Answers[:0]}
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		_, err = s.decideAway(a, v)
		return err
	}
	s.judge(a, v)
	return nil
}

// judge sets the Verdict by the store's reply, and counts the request.
func (s *Shared) judge(a *asking, v *decider.Verdict) {
	s.steps[decider.Exact].Add(1)
	if a.req.Quota != nil {
		s.judgeOwn(a, v)
		return
	}
	m := a.k.Match
	v.Rule = m.List[0].Ref
	for i, r := range a.rs.list(m.Rated) {
		d := a.decision(i)
		s.learn(r, a.req.Key, v.At, d.Remaining)
		if d.OK && !a.reply.Granted && !a.returned { // as if it had given, as in a Verdict of one node
			d.Remaining = max(d.Remaining-a.req.N, 0)
		}
		v.Answers = append(v.Answers, decider.Answer{Decision: d, Rule: r.Ref, At: v.At})
		switch {
		case d.OK:
		case r.Mode == config.Shadow:
			if a.req.N > 0 {
				r.counts.shadowed.Add(1)
			}
		default:
			s.denied(a, r, d, v)
			return
		}
	}
	if !a.reply.Granted { // a bucket of another request denies
		v.Deny(0, 0)
		return
	}
	v.OK, v.Grant = true, a.rs.grantOf(m, a.req.N, v)
	v.Grant.At = time.Unix(0, int64(a.reply.Time)).Sub(s.clock.Time(0)) // by the store's clock
	s.count(a.rs, a.k, a.req, v)
}

// denied ends a Verdict with the denial of a rule.
func (s *Shared) denied(a *asking, r *rule, d weir.Decision, v *decider.Verdict) {
	why := weir.OverRate
	if a.req.N > 0 {
		why = reasonOf(d)
		r.counts.denied[why].Add(1)
		a.k.Known.Count(false, false)
	}
	v.Deny(why, d.RetryAfter)
}

func reasonOf(d weir.Decision) weir.Reason {
	if d.RetryAfter == weir.Never {
		return weir.OverBurst
	}
	return weir.OverRate
}

// judgeOwn is judge for a request that brings a quota.
func (s *Shared) judgeOwn(a *asking, v *decider.Verdict) {
	m := a.k.Match
	if len(m.List) > 0 {
		v.Rule = m.List[0].Ref
	}
	d := a.decision(0)
	v.Answers = append(v.Answers, decider.Answer{Decision: d, Rule: ownRule, At: v.At})
	switch {
	case d.OK && !a.reply.Granted: // a bucket of another request denies
		v.Deny(0, 0)
		return
	case d.OK:
	case a.req.Quota.Unit == 0 && m.ShadowsOwn():
		for _, r := range m.Rated {
			if a.req.N > 0 {
				a.rs.at(r).counts.shadowed.Add(1)
			}
		}
	default:
		if a.req.N > 0 {
			s.countOwnDenied(a.rs, a.k, reasonOf(d))
		}
		v.Deny(reasonOf(d), d.RetryAfter)
		return
	}
	v.OK = true
	s.countOwn(a.rs, a.k, a.req, v)
}

// Batch decides many requests: see decider.Decider.
func (s *Shared) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	return s.batch(ctx, s.rules.Load(), reqs, all, verdicts, false)
}

// Descriptors decides the descriptors of one request: see decider.Decider.
func (s *Shared) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	rs := s.rules.Load()
	rs.DropQuotas(reqs)
	return s.batch(ctx, rs, reqs, all, verdicts, rs.Replaces())
}

// batch sends all requests at once, so that they go together in a pipeline. With all set, they
// are one call.
func (s *Shared) batch(ctx context.Context, rs *version, reqs []decider.Request, all bool, verdicts []decider.Verdict, replaces bool) (ok bool, err error) {
	keys, err := s.keys.FindAll(ctx, reqs, rs.Set, nil)
	if err != nil && all {
		return false, err
	}
	reqs, ok = reqs[:len(keys)], err == nil
	var replaced map[string]bool
	if replaces {
		replaced = rules.Replaced(keys, reqs)
	}
	asks := make([]*asking, len(reqs))
	for i := range reqs {
		a, err := s.prepare(rs, keys[i], &reqs[i], nil)
		if err == nil && keys[i].Unrated(&reqs[i]) {
			err = decider.ErrNoRate
		}
		if err != nil {
			return false, err
		}
		if len(replaced) == 0 || !replaced[keys[i].Name(&reqs[i])] {
			asks[i] = a
		}
	}
	if all {
		return s.together(ctx, asks, verdicts)
	}
	failed := make([]error, len(asks))
	for i, a := range asks {
		if a != nil && len(a.buckets) > 0 {
			failed[i] = s.begin(ctx, asks[i:i+1])
		}
	}
	for i, a := range asks {
		v := &verdicts[i]
		if !s.decideHere(ctx, a, v) {
			if failed[i] == nil {
				failed[i] = s.finish(ctx, asks[i:i+1])
			}
			if e := s.conclude(ctx, a, failed[i], v); e != nil && err == nil {
				v.Deny(0, 0)
				err = e
			}
		}
		ok = ok && v.OK
	}
	return ok, err
}

// decideHere decides a request that the store need not be asked about, and reports whether it is
// one. The asking of a request whose rule is replaced is nil.
func (s *Shared) decideHere(ctx context.Context, a *asking, v *decider.Verdict) bool {
	switch {
	case a == nil:
		*v = decider.Verdict{OK: true, At: s.clock.Now(), Answers: v.Answers[:0]}
	case len(a.buckets) == 0:
		_ = s.Server.Decide(ctx, a.req, v) // no error: prepare has checked it
	default:
		return false
	}
	return true
}

// together decides requests in one call, all or nothing.
func (s *Shared) together(ctx context.Context, asks []*asking, verdicts []decider.Verdict) (ok bool, err error) {
	ok = true
	var some []*asking
	for i, a := range asks {
		if v := &verdicts[i]; s.decideHere(ctx, a, v) {
			ok = ok && v.OK
		} else {
			some = append(some, a)
		}
	}
	if len(some) == 0 {
		return ok, nil
	}
	if !ok { // a key without a rule is denied
		for i, a := range asks {
			if a != nil && len(a.buckets) > 0 {
				verdicts[i] = decider.Verdict{At: s.clock.Now(), Answers: verdicts[i].Answers[:0]}
			}
		}
		denyRest(verdicts[:len(asks)])
		return false, nil
	}
	if err = s.begin(ctx, some); err == nil {
		err = s.finish(ctx, some)
	}
	at := s.clock.Now()
	if err != nil {
		switch {
		case err == errSlots:
			return false, err
		case ctx.Err() != nil:
			return false, ctx.Err()
		}
		return s.togetherAway(asks, verdicts)
	}
	s.heedLooks(some)
	for i, a := range asks {
		if v := &verdicts[i]; a != nil && len(a.buckets) > 0 {
			*v = decider.Verdict{At: at, Answers: v.Answers[:0]}
			s.judge(a, v)
			ok = ok && v.OK
		}
	}
	if !ok {
		denyRest(verdicts[:len(asks)])
	}
	return ok, nil
}

// heedLooks takes back what the store has granted if a request without a cost is denied: the
// script does not deny because of those.
func (s *Shared) heedLooks(all []*asking) {
	if !all[0].reply.Granted {
		return
	}
	denied := false
	for _, a := range all {
		for i := range a.buckets {
			denied = denied || a.req.N == 0 && !a.buckets[i].take.Soft && !a.decision(i).OK
		}
	}
	if !denied {
		return
	}
	s.giveBackStored(merge(all), &all[0].reply)
	for _, a := range all {
		a.reply.Granted, a.returned = false, true
	}
}

// denyRest denies the requests that would have been allowed.
func denyRest(verdicts []decider.Verdict) {
	for i := range verdicts {
		if verdicts[i].OK {
			verdicts[i].Deny(0, 0)
		}
	}
}
