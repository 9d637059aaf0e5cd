package server

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A choice is how a request is decided by this node alone.
type choice struct {
	step      decider.Step
	local     rules.Found // the rules by whose shares the node decides
	deny      *rules.Rule // a rule that denies then; nil if there is none
	otherwise config.Away // how a quota without a rule is decided
}

// choose chooses how an asking is decided while the store does not answer.
func (s *Shared) choose(a *asking) choice {
	if a.lane.Known(s.cfg.Known) {
		return choice{step: decider.Known, local: a.Found}
	}
	return choose(a.Found, s.cfg.Away)
}

// choose chooses how a request for a key is decided by this node alone. Rules that do not say
// decide as otherwise does.
func choose(k rules.Found, otherwise config.Away) choice {
	c := choice{step: decider.Share, local: k, otherwise: otherwise}
	var shares []*rules.Rule
	for _, r := range k.Rated {
		away := cmp.Or(r.Away, otherwise)
		switch {
		case away == config.AwayShare:
			shares = append(shares, r)
			continue
		case away == config.AwayDeny && r.Mode != config.Shadow && c.deny == nil:
			c.deny = r
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
		a.V.At = s.clock.Now()
		a.Err = s.takeAlone(&a.Ask, &choices[i], a.lane.RetryAfter())
		if a.Refused() {
			ok = false
		} else {
			s.owe(a)
		}
	}
	for i, a := range some {
		if all && !ok && !a.Refused() {
			s.forgive(a)
			s.undoAlone(&a.Ask, &choices[i])
		}
	}
}

// takeAlone takes by this node alone, as was chosen. A denial by the rules has the retry advice.
func (s *Server) takeAlone(a *counts.Ask, c *choice, retry time.Duration) error {
	if a.V.Step = c.step; c.byRule(a.Req) {
		switch {
		case c.deny != nil:
			a.Answer(weir.Decision{RetryAfter: retry}, c.deny.Ref)
			a.V.Reason = weir.Closed
		case len(a.Rated) == 0 && c.otherwise == config.AwayDeny:
			a.Answer(weir.Decision{RetryAfter: retry}, counts.OwnRule)
			a.V.Reason = weir.Closed
		default:
			a.Answer(weir.Decision{OK: true}, counts.OwnRule)
		}
		return nil
	}
	local := s.localAsk(a, c)
	_, err := s.memory.Take(context.Background(), local)
	return err
}

// awaitAlone is takeAlone for a request that may wait. If the rules decide, it does not.
func (s *Server) awaitAlone(ctx context.Context, a *counts.Asked, again func(*counts.Asked) bool, c *choice, retry time.Duration) {
	if c.step == decider.ByRule {
		a.Err = s.takeAlone(&a.Ask, c, retry)
		return
	}
	s.memory.Await(ctx, a, again)
	a.V.Step = c.step
}

// undoAlone returns what takeAlone has granted.
func (s *Server) undoAlone(a *counts.Ask, c *choice) {
	if !c.byRule(a.Req) {
		local := s.localAsk(a, c)
		s.memory.Undo(&local)
	}
}

// localAsk returns the ask for the node's share of the rules that have one.
func (s *Server) localAsk(a *counts.Ask, c *choice) counts.Ask {
	local := *a
	local.Found, local.Req = c.local, s.memory.ShareOfRequest(a.Req)
	return local
}
