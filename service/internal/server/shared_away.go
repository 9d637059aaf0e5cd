package server

import (
	"cmp"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A choice is how a request is decided while the store does not answer.
type choice struct {
	step  decider.Step
	local found // the rules by whose shares the node decides
	deny  *rule // a rule that denies without its store; nil if there is none
}

// away returns how a rule decides while the store does not answer.
func (s *Shared) away(r *rule) config.Away { return cmp.Or(r.Away, s.cfg.Away) }

// choose chooses how an asking is decided while the store does not answer.
func (s *Shared) choose(a *asking) choice {
	if a.lane.Known(s.cfg.Known) {
		return choice{step: decider.Known, local: a.k}
	}
	c := choice{step: decider.Share, local: a.k}
	var shares []*rule
	for _, r := range a.k.match.rated {
		away := s.away(r)
		switch {
		case away == config.AwayShare:
			shares = append(shares, r)
			continue
		case away == config.AwayDeny && r.Mode != config.Shadow && c.deny == nil:
			c.deny = r
		}
		c.step = decider.ByRule
	}
	if len(a.k.match.rated) == 0 && s.cfg.Away != config.AwayShare { // a quota without a rule
		c.step = decider.ByRule
	}
	if c.step == decider.ByRule {
		c.local = found{match: &match{rules: a.k.match.rules, list: a.k.match.list, rated: shares}, print: a.k.print}
	}
	return c
}

// decideAway decides while the store does not answer.
func (s *Shared) decideAway(a *asking, v *decider.Verdict) error {
	c := s.choose(a)
	if c.deny != nil || a.req.Quota != nil && c.step == decider.ByRule {
		return s.decideByRule(a, &c, v)
	}
	req := *a.req
	if req.Quota != nil {
		share := s.shareOfOwn(*req.Quota)
		req.Quota = &share
	}
	if err := s.decide(a.rs, c.local, &req, v, true, nil); err != nil {
		return err
	}
	s.degraded(a, c.step, v)
	return nil
}

// decideByRule denies by a rule that denies without its store. A quota that a request brings is
// decided as the rules say, or as the node's default where there is none.
func (s *Shared) decideByRule(a *asking, c *choice, v *decider.Verdict) error {
	if len(a.k.match.list) > 0 {
		v.Rule = a.k.match.list[0].stated
	}
	retry := a.lane.RetryAfter()
	switch {
	case c.deny != nil:
		c.deny.counts.denied[weir.Closed].Add(1)
		v.Answers = append(v.Answers, decider.Answer{Decision: weir.Decision{RetryAfter: retry}, Rule: c.deny.stated, At: v.At})
		v.Deny(weir.Closed, retry)
	case len(a.k.match.rated) == 0 && s.cfg.Away == config.AwayDeny:
		v.Answers = append(v.Answers, decider.Answer{Decision: weir.Decision{RetryAfter: retry}, Rule: ownRule, At: v.At})
		v.Deny(weir.Closed, retry)
	default:
		v.OK = true
		v.Answers = append(v.Answers, decider.Answer{Decision: weir.Decision{OK: true}, Rule: ownRule, At: v.At})
	}
	s.degraded(a, c.step, v)
	return nil
}

// degraded marks a Verdict that the store has not made, and notes what it owes to the store.
func (s *Shared) degraded(a *asking, step decider.Step, v *decider.Verdict) {
	v.Step = step
	s.steps[step].Add(1)
	if v.OK {
		s.owe(a)
	}
	if s.cfg.OnDegraded == nil {
		return
	}
	if last := s.sampled.Load(); last == 0 || v.At-time.Duration(last) > time.Second {
		if s.sampled.CompareAndSwap(last, max(int64(v.At), 1)) {
			s.cfg.OnDegraded(a.req.Key, v)
		}
	}
}

// togetherAway decides requests that are all or nothing while the store does not answer.
func (s *Shared) togetherAway(asks []*asking, verdicts []decider.Verdict) (ok bool, err error) {
	ok = true
	for i, a := range asks {
		if v := &verdicts[i]; a != nil && len(a.buckets) > 0 {
			*v = decider.Verdict{At: s.clock.Now(), Answers: v.Answers[:0]}
			if err := s.decideAway(a, v); err != nil {
				return false, err
			}
			ok = ok && v.OK
		}
	}
	if !ok {
		for i, a := range asks {
			if a != nil && verdicts[i].OK {
				s.forgive(a)
			}
		}
		denyRest(verdicts[:len(asks)])
	}
	return ok, nil
}
