package tier

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/usage"
	"github.com/weir-go/weir/service/internal/server/away"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A request is a request to a Tier.
type request struct {
	*counts.Asked
	way   Way
	terms *Terms       // nil if no rule with a rate counts
	alone *away.Choice // how the node has decided alone; nil if it has not
}

// resolve finds out what decides about a request.
func (t *Counts) resolve(a *counts.Ask) (Way, *Terms) {
	switch {
	case a.Req.Quota != nil:
		return ByUpstream, nil
	case len(a.Rated) == 0:
		return ByNode, nil
	}
	terms := t.Terms(a.Match)
	if asked := t.of.Limit(a.Req); terms.Way == ByLeaf && asked > 0 && a.Limits(asked) {
		return ByUpstream, terms
	}
	return terms.Way, terms
}

// Take takes at once: see counts.Counts.
func (t *Counts) Take(ctx context.Context, a counts.Ask) (whole bool, err error) {
	way, terms := t.resolve(&a)
	if done, whole, err := t.takeHere(&a, way, terms); done {
		return whole, err
	}
	return t.takeThere(ctx, request{Asked: &counts.Asked{Ask: a}, way: way, terms: terms})
}

// takeThere asks the upstream.
func (t *Counts) takeThere(ctx context.Context, r request) (whole bool, err error) {
	err = t.ask(ctx, func(ctx context.Context) error { return t.cfg.Upstream.Decide(ctx, r.Req, r.V) })
	switch err {
	case nil:
		t.asked(&r)
	case errUpstream:
		t.takeAway(&r)
		err = r.Err
	}
	return r.Whole, err
}

// TakeAll takes what the node can decide, and asks the upstream about the rest together.
func (t *Counts) TakeAll(ctx context.Context, asks []counts.Asked, all bool) {
	reqs, there, ok := make([]request, len(asks)), []*request(nil), true
	for i := range asks {
		a := &asks[i]
		if a.Decided {
			ok = ok && a.V.OK
			continue
		}
		r, done := &reqs[i], false
		r.Asked = a
		r.way, r.terms = t.resolve(&a.Ask)
		if done, a.Whole, a.Err = t.takeHere(&a.Ask, r.way, r.terms); !done {
			there = append(there, r)
			continue
		}
		ok = ok && !a.Refused()
	}
	switch {
	case all && !ok:
		for _, r := range there {
			r.Decided = true
		}
	case len(there) > 0:
		t.askAll(ctx, there, all)
	}
	for i := range asks {
		ok = ok && !asks[i].Refused()
	}
	for i := 0; all && !ok && i < len(reqs); i++ {
		if r := &reqs[i]; r.Asked != nil {
			t.takeBack(r)
		}
	}
}

// askAll asks the upstream about requests together. If it does not answer, the node decides.
func (t *Counts) askAll(ctx context.Context, there []*request, all bool) {
	reqs, got := make([]decider.Request, len(there)), make([]decider.Verdict, len(there))
	for i, r := range there {
		reqs[i] = *r.Req
	}
	err := t.ask(ctx, func(ctx context.Context) (err error) {
		_, err = t.cfg.Upstream.Batch(ctx, reqs, all, got)
		return err
	})
	for i, r := range there {
		switch err {
		case nil:
			*r.V = got[i]
			t.asked(r)
		case errUpstream:
			t.takeAway(r)
		default:
			r.Err = err
		}
	}
}

// takeHere takes the tokens of a request unless the upstream has to be asked.
func (t *Counts) takeHere(a *counts.Ask, way Way, terms *Terms) (done, whole bool, err error) {
	switch way {
	case ByNode:
		whole, err = t.Counts.Take(context.Background(), *a)
		return true, whole, err
	case ByUpstream:
		return false, false, nil
	}
	d, step := t.leaf.Take(terms.Key(a.Req.Key), a.Req.N, terms.Policy)
	if step == leaf.Ask || t.crowded(terms, step) {
		return false, false, nil
	}
	t.decided(a, terms, d, step)
	return true, true, nil
}

// Look asks the upstream. If that does not answer, the node tells its share: see counts.Counts.
func (t *Counts) Look(ctx context.Context, m *rules.Match, key string, states []decider.RuleState) (*decider.Explanation, error) {
	var there decider.Explanation
	err := t.ask(ctx, func(ctx context.Context) (err error) {
		there, err = t.cfg.Upstream.Explain(ctx, key)
		return err
	})
	if err == errUpstream {
		return t.Counts.Look(ctx, m, key, states)
	}
	return &there, err
}

// Reset returns decider.ErrResetUpstream: the upstream has the buckets.
func (t *Counts) Reset(context.Context, *rules.Match, string) ([]decider.Reset, error) {
	return nil, decider.ErrResetUpstream
}

// takeBack returns what a request was given here.
func (t *Counts) takeBack(r *request) {
	switch {
	case r.Decided || r.Refused():
	case r.alone != nil:
		t.share.UndoAs(&r.Ask, r.alone)
	case r.way == ByNode:
		t.Counts.Undo(&r.Ask)
	case r.way == ByLeaf && r.Req.N > 0:
		t.leaf.Settle(r.terms.Key(r.Req.Key), t.onLeaf(r.V.Grant.At), r.Req.N, 0)
	}
}

// crowded reports whether a decision is by rule only because the leaf has no room for the key.
func (t *Counts) crowded(terms *Terms, step leaf.Step) bool {
	return step == leaf.ByRule && terms.Policy.Away == leaf.ShareAway && t.link.lost()
}

var steps = [...]decider.Step{leaf.Assigned: decider.Assigned, leaf.Last: decider.Last, leaf.Share: decider.Share, leaf.ByRule: decider.ByRule}

// stepOf returns the step of a decision of the leaf, but not of leaf.Ask. While the upstream answers, a key
// without an assignment is decided by its share, or denied, only because its rule says so: that is not degraded.
func (t *Counts) stepOf(step leaf.Step) decider.Step {
	if s := steps[step]; s < decider.Share || t.link.lost() {
		return s
	}
	return decider.Assigned
}

// decided makes the verdict by the leaf's decision. The rule with the smallest rate tells it.
func (t *Counts) decided(a *counts.Ask, terms *Terms, d weir.Decision, step leaf.Step) {
	v := a.V
	v.Rule, v.Step = a.First(), t.stepOf(step)
	for _, rule := range a.Rated {
		one := d
		one.Remaining = min(d.Remaining, rule.Limit())
		one.OK = d.OK || rule != terms.Rule
		if a.Answer(one, rule.Ref); !one.OK {
			break
		}
	}
	switch {
	case d.OK:
		v.OK, v.Grant = true, t.grantOf(a.Req.N, terms)
	case v.Step == decider.ByRule:
		v.Deny(weir.Closed, d.RetryAfter)
	default:
		v.Deny(counts.ReasonOf(d), d.RetryAfter)
	}
}

// asked completes the verdict of the upstream.
func (t *Counts) asked(r *request) {
	v := r.V
	if r.Whole = true; v.OK && r.Req.WantID && v.Grant.N > 0 && v.Grant.ID == "" {
		v.Grant.ID = string(t.cfg.Upstream.AppendGrantID(nil, v.Grant, r.Req.Key))
	}
}

// takeAway takes by the node alone: by its share of the limits, or as the rules say.
func (t *Counts) takeAway(r *request) {
	c := t.share.Choose(r.Found, away.Retry)
	*r.V = decider.Verdict{At: t.of.Clock.Now(), Answers: r.V.Answers[:0]}
	r.Err, r.alone = t.share.TakeAs(&r.Ask, &c), &c
}

// leafMark is added to Grant.Rules of grants by assignments.
const leafMark = 0x6c65_6166_6c65_6166

// grantOf returns the grant of a request that the leaf has allowed.
func (t *Counts) grantOf(n int, terms *Terms) decider.Grant {
	if n == 0 {
		return decider.Grant{}
	}
	at := t.leaf.Now().Truncate(usage.Grain) // so that the id, which rounds, tells it exactly
	return decider.Grant{N: n, At: (at + t.leafAhead()).Round(usage.Grain), Rules: counts.Mark(terms.Rule, t.Counts.Since()) + leafMark}
}
