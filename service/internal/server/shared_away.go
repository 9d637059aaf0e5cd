package server

import (
	"cmp"

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
		return choice{step: decider.Known, local: a.Found}
	}
	return choose(a.rs, a.Found, s.cfg.Away)
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

// takeAway takes by this node alone, and notes what it owes to the store. With all set, it takes for
// all requests or for none.
func (s *Shared) takeAway(some []*asking, all bool) {
	ok, choices := true, make([]choice, len(some))
	for i, a := range some {
		choices[i] = s.choose(a)
		a.v.At = s.clock.Now()
		a.err = s.takeAlone(&a.ask, &choices[i], a.lane.RetryAfter())
		if a.refused() {
			ok = false
		} else {
			s.owe(a)
		}
	}
	for i, a := range some {
		if all && !ok && !a.refused() {
			s.forgive(a)
			s.undoAlone(&a.ask, &choices[i])
		}
	}
}
