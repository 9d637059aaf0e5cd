// Package away decides while what keeps the counts or leases of a node does not answer: by the node's share of the limits, or as the
// rules say.
package away

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A Share is Counts by the node's share of the limits, or as the rules say.
type Share struct {
	*memory.Counts             // of the share
	Otherwise      config.Away // for rules that do not say
}

// Retry is the retry advice of a denial, unless more is known.
const Retry = time.Second

// A Choice is how a request is decided by the node alone.
type Choice struct {
	step      decider.Step
	local     rules.Found // the node decides by its shares of these rules
	deny      *rules.Rule // a rule that denies then; nil if there is none
	otherwise config.Away // how a quota without a rule is decided
	retry     time.Duration
}

// Known is the Choice for a request for a key of which the node knows a recent state.
func Known(k rules.Found) Choice { return Choice{step: decider.Known, local: k} }

// Choose chooses how a request for a key is decided.
func (s Share) Choose(k rules.Found, retry time.Duration) Choice {
	c := Choice{step: decider.Share, local: k, otherwise: s.Otherwise, retry: retry}
	var shares []*rules.Rule
	for _, r := range k.Rated {
		away := cmp.Or(r.Away, s.Otherwise)
		switch {
		case away == config.AwayShare:
			shares = append(shares, r)
			continue
		case away == config.AwayDeny && r.Mode != config.Shadow && c.deny == nil:
			c.deny = r
		}
		c.step = decider.ByRule
	}
	if len(k.Rated) == 0 && s.Otherwise != config.AwayShare { // a quota without a rule
		c.step = decider.ByRule
	}
	if c.step == decider.ByRule {
		c.local = rules.Found{Match: &rules.Match{Set: k.Set, List: k.List, Rated: shares}, Print: k.Print}
	}
	return c
}

// byRule reports whether the rules decide, and not a share.
func (c *Choice) byRule(req *decider.Request) bool {
	return c.deny != nil || req.Quota != nil && c.step == decider.ByRule
}

// TakeAs takes as was chosen.
func (s Share) TakeAs(a *counts.Ask, c *Choice) error {
	if a.V.Step = c.step; c.byRule(a.Req) {
		switch {
		case c.deny != nil:
			a.Answer(weir.Decision{RetryAfter: c.retry}, c.deny.Ref)
			a.V.Reason = weir.Closed
		case len(a.Rated) == 0 && c.otherwise == config.AwayDeny:
			a.Answer(weir.Decision{RetryAfter: c.retry}, counts.OwnRule)
			a.V.Reason = weir.Closed
		default:
			a.Answer(weir.Decision{OK: true}, counts.OwnRule)
		}
		return nil
	}
	_, err := s.Counts.Take(context.Background(), s.local(a, c))
	return err
}

// AwaitAs is TakeAs for a request that may wait. If the rules decide, it does not.
func (s Share) AwaitAs(ctx context.Context, a *counts.Asked, again func(*counts.Asked) bool, c *Choice) {
	if c.step == decider.ByRule {
		a.Err = s.TakeAs(&a.Ask, c)
		return
	}
	s.Counts.Await(ctx, a, again)
	a.V.Step = c.step
}

// UndoAs returns what TakeAs has granted.
func (s Share) UndoAs(a *counts.Ask, c *Choice) {
	if !c.byRule(a.Req) {
		local := s.local(a, c)
		s.Undo(&local)
	}
}

// local returns the ask for the node's share of the rules that have one.
func (s Share) local(a *counts.Ask, c *Choice) counts.Ask {
	return counts.Ask{Found: c.local, Req: s.ShareOfRequest(a.Req), V: a.V}
}

// Take takes at once: see counts.Counts.
func (s Share) Take(_ context.Context, a counts.Ask) (whole bool, err error) {
	c := s.Choose(a.Found, Retry)
	return false, s.TakeAs(&a, &c)
}

// Await takes, or waits: see counts.Counts.
func (s Share) Await(ctx context.Context, a *counts.Asked, again func(*counts.Asked) bool) {
	c := s.Choose(a.Found, Retry)
	s.AwaitAs(ctx, a, again, &c)
}

// TakeAll takes from all or none: see counts.Counts.
func (s Share) TakeAll(ctx context.Context, asks []counts.Asked, all bool) {
	some := make([]*counts.Asked, 0, len(asks))
	refused := false
	for i := range asks {
		if a := &asks[i]; a.Decided {
			refused = refused || a.Refused()
		} else {
			some = append(some, a)
		}
	}
	s.TakeSome(some, all, refused, func(i int) Choice { return s.Choose(some[i].Found, Retry) })
}

// TakeSome takes for requests as is chosen for each. With all set, it takes for all of them or, also if another request was
// refused, for none. It returns which of them keep what they took.
func (s Share) TakeSome(some []*counts.Asked, all, refused bool, choose func(i int) Choice) (kept []bool) {
	kept, choices := make([]bool, len(some)), make([]Choice, len(some))
	for i, a := range some {
		choices[i] = choose(i)
		a.Err = s.TakeAs(&a.Ask, &choices[i])
		kept[i] = !a.Refused()
		refused = refused || !kept[i]
	}
	for i, a := range some {
		if all && refused && kept[i] {
			s.UndoAs(&a.Ask, &choices[i])
			kept[i] = false
		}
	}
	return kept
}

// Undated returns an error for a rule that nodes which share its limits cannot count in common.
func Undated(r *rules.Rule) error {
	if r.Algorithm == config.Calendar {
		return errors.New("algorithm: calendar counts in one process: instances cannot share its windows through a store or an upstream")
	}
	return nil
}
