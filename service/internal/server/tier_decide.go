package server

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/usage"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// tierRetry is the retry advice of a denial because the upstream does not answer.
const tierRetry = time.Second

// A tierRequest is a request to a Tier.
type tierRequest struct {
	*asked
	way   tierWay
	terms *tierTerms // nil if no rule with a rate counts
	alone *choice    // how the node has decided alone; nil if it has not
}

// resolve finds out what decides about a request.
func (t *Tier) resolve(a *ask) (tierWay, *tierTerms) {
	switch {
	case a.req.Quota != nil:
		return byUpstream, nil
	case len(a.Rated) == 0:
		return byNode, nil
	}
	terms := t.terms(a.rs, a.Match)
	if asked := t.ownLimit(a.req); terms.way == byLeaf && asked > 0 && a.Limits(asked) {
		return byUpstream, terms
	}
	return terms.way, terms
}

// assigned counts by assignments, and asks the upstream about the rest.
type assigned struct{ *Tier }

func (t assigned) take(ctx context.Context, a ask) (whole bool, err error) {
	way, terms := t.resolve(&a)
	if done, whole, err := t.takeHere(&a, way, terms); done {
		return whole, err
	}
	return t.takeThere(ctx, tierRequest{asked: &asked{ask: a}, way: way, terms: terms})
}

// takeThere asks the upstream.
func (t *Tier) takeThere(ctx context.Context, r tierRequest) (whole bool, err error) {
	err = t.ask(ctx, func(ctx context.Context) error { return t.cfg.Upstream.Decide(ctx, r.req, r.v) })
	switch err {
	case nil:
		t.asked(&r)
	case errUpstream:
		t.takeAway(&r)
		err = r.err
	}
	return r.whole, err
}

// takeAll takes what the node can decide, and asks the upstream about the rest together.
func (t assigned) takeAll(ctx context.Context, asks []asked, all bool) {
	reqs, there, ok := make([]tierRequest, len(asks)), []*tierRequest(nil), true
	for i := range asks {
		a := &asks[i]
		if a.settled {
			ok = ok && a.v.OK
			continue
		}
		r, done := &reqs[i], false
		r.asked = a
		r.way, r.terms = t.resolve(&a.ask)
		if done, a.whole, a.err = t.takeHere(&a.ask, r.way, r.terms); !done {
			there = append(there, r)
			continue
		}
		ok = ok && !a.refused()
	}
	switch {
	case all && !ok:
		for _, r := range there {
			r.settled = true
		}
	case len(there) > 0:
		t.askAll(ctx, there, all)
	}
	for i := range asks {
		ok = ok && !asks[i].refused()
	}
	for i := 0; all && !ok && i < len(reqs); i++ {
		if r := &reqs[i]; r.asked != nil {
			t.takeBack(r)
		}
	}
}

// askAll asks the upstream about requests together. If it does not answer, the node decides.
func (t *Tier) askAll(ctx context.Context, there []*tierRequest, all bool) {
	reqs, got := make([]decider.Request, len(there)), make([]decider.Verdict, len(there))
	for i, r := range there {
		reqs[i] = *r.req
	}
	err := t.ask(ctx, func(ctx context.Context) (err error) {
		_, err = t.cfg.Upstream.Batch(ctx, reqs, all, got)
		return err
	})
	for i, r := range there {
		switch err {
		case nil:
			*r.v = got[i]
			t.asked(r)
		case errUpstream:
			t.takeAway(r)
		default:
			r.err = err
		}
	}
}

// takeHere takes the tokens of a request unless the upstream has to be asked.
func (t *Tier) takeHere(a *ask, way tierWay, terms *tierTerms) (done, whole bool, err error) {
	switch way {
	case byNode:
		return true, false, memory{t.Server}.takeWith(a, nil)
	case byUpstream:
		return false, false, nil
	}
	d, step := t.leaf.Take(terms.key(a.req.Key), a.req.N, terms.policy)
	if step == leaf.Ask || t.crowded(terms, step) {
		return false, false, nil
	}
	t.decided(a, terms, d, step)
	return true, true, nil
}

// look asks the upstream. If that does not answer, the node tells its share.
func (t assigned) look(ctx context.Context, rs *version, m *rules.Match, key string, states []decider.RuleState) (*decider.Explanation, error) {
	var there decider.Explanation
	err := t.ask(ctx, func(ctx context.Context) (err error) {
		there, err = t.cfg.Upstream.Explain(ctx, key)
		return err
	})
	if err == errUpstream {
		return memory{t.Server}.look(ctx, rs, m, key, states)
	}
	return &there, err
}

// takeBack returns what a request was given here.
func (t *Tier) takeBack(r *tierRequest) {
	switch {
	case r.settled || r.refused():
	case r.alone != nil:
		t.undoAlone(&r.ask, r.alone)
	case r.way == byNode:
		memory{t.Server}.undo(&r.ask)
	case r.way == byLeaf && r.req.N > 0:
		t.leaf.Settle(r.terms.key(r.req.Key), t.onLeaf(r.v.Grant.At), r.req.N, 0)
	}
}

// crowded reports whether a decision is by rule only because the leaf has no room for the key.
func (t *Tier) crowded(terms *tierTerms, step leaf.Step) bool {
	return step == leaf.ByRule && terms.policy.Away == leaf.ShareAway && t.link.lost()
}

var tierSteps = [...]decider.Step{leaf.Assigned: decider.Assigned, leaf.Last: decider.Last, leaf.Share: decider.Share, leaf.ByRule: decider.ByRule}

// stepOf returns the step of a decision of the leaf, but not of leaf.Ask. While the upstream answers, a key
// without an assignment is decided by its share, or denied, only because its rule says so: that is not degraded.
func (t *Tier) stepOf(step leaf.Step) decider.Step {
	if s := tierSteps[step]; s < decider.Share || t.link.lost() {
		return s
	}
	return decider.Assigned
}

// decided makes the verdict by the leaf's decision. The rule with the smallest rate tells it.
func (t *Tier) decided(a *ask, terms *tierTerms, d weir.Decision, step leaf.Step) {
	v := a.v
	v.Rule, v.Step = a.First(), t.stepOf(step)
	for _, rule := range a.Rated {
		one := d
		one.Remaining = min(d.Remaining, rule.Limit())
		one.OK = d.OK || rule != terms.rule.Rule
		if a.answer(one, rule.Ref); !one.OK {
			break
		}
	}
	switch {
	case d.OK:
		v.OK, v.Grant = true, t.grantOf(a.req.N, terms)
	case v.Step == decider.ByRule:
		v.Deny(weir.Closed, d.RetryAfter)
	default:
		v.Deny(reasonOf(d), d.RetryAfter)
	}
}

// asked completes the verdict of the upstream.
func (t *Tier) asked(r *tierRequest) {
	v := r.v
	if r.whole = true; v.OK && r.req.WantID && v.Grant.N > 0 && v.Grant.ID == "" {
		v.Grant.ID = string(t.cfg.Upstream.AppendGrantID(nil, v.Grant, r.req.Key))
	}
}

// takeAway takes by the node alone: by its share of the limits, or as the rules say.
func (t *Tier) takeAway(r *tierRequest) {
	c := choose(r.rs, r.Found, t.cfg.Away)
	*r.v = decider.Verdict{At: t.clock.Now(), Answers: r.v.Answers[:0]}
	r.err, r.alone = t.takeAlone(&r.ask, &c, tierRetry), &c
}

// leafMark is added to Grant.Rules of grants by assignments.
const leafMark = 0x6c65_6166_6c65_6166

// grantOf returns the grant of a request that the leaf has allowed.
func (t *Tier) grantOf(n int, terms *tierTerms) decider.Grant {
	if n == 0 {
		return decider.Grant{}
	}
	at := t.leaf.Now().Truncate(usage.Grain) // so that the id, which rounds, tells it exactly
	return decider.Grant{N: n, At: (at + t.leafAhead()).Round(usage.Grain), Rules: terms.rule.mark() + leafMark}
}
