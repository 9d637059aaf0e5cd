package server

import (
	"cmp"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A choice is how a request is decided by this node alone.
type choice struct {
	step      decider.Step
	local     rules.Found // the rules by whose shares the node decides
	deny      *rule       // a rule that denies then; nil if there is none
	otherwise config.Away // how a quota without a rule is decided
}

// choose chooses how an asking is decided while the store does not answer.
func (s *Shared) choose(a *asking) choice {
	if a.lane.Known(s.cfg.Known) {
		return choice{step: decider.Known, local: a.k}
	}
	return choose(a.rs, a.k, s.cfg.Away)
}

// choose chooses how a request for a key is decided by this node alone. Rules that do not say
// decide as otherwise does.
func choose(rs *version, k rules.Found, otherwise config.Away) choice {
	c := choice{step: decider.Share, local: k, otherwise: otherwise}
	var shares []*rules.Rule
	for _, r := range k.Rated {
		away := cmp.Or(r.Away, otherwise)
		switch {
		case away == config.AwayShare:
			shares = append(shares, r)
			continue
		case away == config.AwayDeny && r.Mode != config.Shadow && c.deny == nil:
			c.deny = rs.at(r)
		}
		c.step = decider.ByRule
	}
	if len(k.Rated) == 0 && otherwise != config.AwayShare { // a quota without a rule
		c.step = decider.ByRule
	}
	if c.step == decider.ByRule {
		c.local = rules.Found{Match: &rules.Match{Set: k.Set, List: k.List, Rated: shares}, Print: k.Print}
	}
	return c
}

// byRule reports whether the rules decide, and not a share.
func (c *choice) byRule(req *decider.Request) bool {
	return c.deny != nil || req.Quota != nil && c.step == decider.ByRule
}

// decideAway decides while the store does not answer, and returns how.
func (s *Shared) decideAway(a *asking, v *decider.Verdict) (choice, error) {
	c := s.choose(a)
	if err := s.decideAlone(a.rs, a.k, a.req, &c, a.lane.RetryAfter(), v, true); err != nil {
		return c, err
	}
	s.degraded(a, c.step, v)
	return c, nil
}

// decideAlone decides by this node alone, as was chosen. A denial by the rules has the retry
// advice. The outcome is counted if it is final.
func (s *Server) decideAlone(rs *version, k rules.Found, req *decider.Request, c *choice, retry time.Duration, v *decider.Verdict, final bool) error {
	if c.byRule(req) {
		decideByRule(k, c, retry, v)
		return nil
	}
	return s.decide(rs, c.local, s.shareOfRequest(req), v, final, nil)
}

// decideByRule decides as the rules say. A quota that a request brings is decided as the node's
// default says where there is no rule.
func decideByRule(k rules.Found, c *choice, retry time.Duration, v *decider.Verdict) {
	if len(k.List) > 0 {
		v.Rule = k.List[0].Ref
	}
	switch {
	case c.deny != nil:
		c.deny.counts.denied[weir.Closed].Add(1)
		v.Answers = append(v.Answers, decider.Answer{Decision: weir.Decision{RetryAfter: retry}, Rule: c.deny.Ref, At: v.At})
		v.Deny(weir.Closed, retry)
	case len(k.Rated) == 0 && c.otherwise == config.AwayDeny:
		v.Answers = append(v.Answers, decider.Answer{Decision: weir.Decision{RetryAfter: retry}, Rule: ownRule, At: v.At})
		v.Deny(weir.Closed, retry)
	default:
		v.OK = true
		v.Answers = append(v.Answers, decider.Answer{Decision: weir.Decision{OK: true}, Rule: ownRule, At: v.At})
	}
}

// degraded marks a Verdict that the store has not made, and notes what it owes to the store.
func (s *Shared) degraded(a *asking, step decider.Step, v *decider.Verdict) {
	if v.Step = step; v.OK {
		s.owe(a)
	}
	s.note(a.req.Key, v)
}

// togetherAway decides requests that are all or nothing while the store does not answer.
func (s *Shared) togetherAway(asks []*asking, verdicts []decider.Verdict) (ok bool, err error) {
	ok = true
	choices := make([]choice, len(asks))
	for i, a := range asks {
		if v := &verdicts[i]; a != nil && len(a.buckets) > 0 {
			*v = decider.Verdict{At: s.clock.Now(), Answers: v.Answers[:0]}
			if choices[i], err = s.decideAway(a, v); err != nil {
				return false, err
			}
			ok = ok && v.OK
		}
	}
	if !ok {
		for i, a := range asks {
			if a != nil && len(a.buckets) > 0 && verdicts[i].OK {
				s.forgive(a)
				s.undoAlone(a.rs, &choices[i], a.req, &verdicts[i])
			}
		}
		denyRest(verdicts[:len(asks)])
	}
	return ok, nil
}
