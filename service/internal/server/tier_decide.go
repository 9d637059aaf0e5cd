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
	rs    *version
	k     rules.Found
	req   *decider.Request
	way   tierWay
	terms *tierTerms // nil if no rule with a rate counts
	alone *choice    // how the node has decided alone; nil if it has not
}

// resolve finds out what decides about a request.
func (t *Tier) resolve(rs *version, k rules.Found, req *decider.Request) tierRequest {
	if req.N < 0 {
		panic("server: negative cost")
	}
	r := tierRequest{rs: rs, k: k, req: req}
	if req.Quota != nil {
		r.way = byUpstream
		return r
	}
	if len(k.Rated) == 0 {
		return r
	}
	r.terms = t.terms(rs, k.Match)
	if r.way = r.terms.way; r.way == byLeaf {
		if asked := t.ownLimit(req); asked > 0 && k.Limits(asked) {
			r.way = byUpstream
		}
	}
	return r
}

// Decide decides at once: see decider.Decider.
func (t *Tier) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if req.Quota != nil {
		if err := t.CheckRequests([]decider.Request{*req}); err != nil {
			return err
		}
	}
	rs := t.rules.Load()
	r := t.resolve(rs, t.keys.Find(req.Key, rs.Set), req)
	if r.k.Unrated(req) {
		return decider.ErrNoRate
	}
	if t.decideHere(&r, v, true) {
		return nil
	}
	err := t.ask(ctx, func(ctx context.Context) error { return t.cfg.Upstream.Decide(ctx, req, v) })
	switch err {
	case nil:
		t.asked(&r, v, true)
	case errUpstream:
		err = t.decideAway(&r, v)
	}
	return err
}

// decideHere decides a request unless the upstream has to be asked. It counts a request that is
// allowed only if final is set.
func (t *Tier) decideHere(r *tierRequest, v *decider.Verdict, final bool) bool {
	*v = decider.Verdict{At: t.clock.Now(), Answers: v.Answers[:0]}
	switch r.way {
	case byNode:
		_ = t.decide(r.rs, r.k, r.req, v, final, nil) // no error: it brings no quota, and a rule has a rate
		return true
	case byUpstream:
		return false
	}
	d, step := t.leaf.Take(r.terms.key(r.req.Key), r.req.N, r.terms.policy)
	if step == leaf.Ask || t.crowded(r, step) {
		return false
	}
	t.conclude(r, d, step, v)
	t.decided(r, v, final)
	return true
}

// crowded reports whether a decision is by rule only because the leaf has no room for the key.
func (t *Tier) crowded(r *tierRequest, step leaf.Step) bool {
	return step == leaf.ByRule && r.terms.policy.Away == leaf.ShareAway && t.link.lost()
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

// conclude sets the Verdict by the leaf's decision. The rule with the smallest rate tells it.
func (t *Tier) conclude(r *tierRequest, d weir.Decision, step leaf.Step, v *decider.Verdict) {
	m := r.k.Match
	v.Rule, v.Step = m.List[0].Ref, t.stepOf(step)
	for _, rule := range m.Rated {
		one := d
		one.Remaining = min(d.Remaining, rule.Limit())
		one.OK = d.OK || rule != r.terms.rule.Rule
		v.Answers = append(v.Answers, decider.Answer{Decision: one, Rule: rule.Ref, At: v.At})
		if !one.OK {
			break
		}
	}
	switch {
	case d.OK:
		v.OK, v.Grant = true, t.grantOf(r)
	case v.Step == decider.ByRule:
		v.Deny(weir.Closed, d.RetryAfter)
	default:
		v.Deny(reasonOf(d), d.RetryAfter)
	}
}

// asked completes the Verdict of the upstream.
func (t *Tier) asked(r *tierRequest, v *decider.Verdict, final bool) {
	if v.OK && r.req.WantID && v.Grant.N > 0 && v.Grant.ID == "" {
		v.Grant.ID = string(t.cfg.Upstream.AppendGrantID(nil, v.Grant, r.req.Key))
	}
	t.decided(r, v, final)
}

// decideAway decides by the node alone: by its share of the limits, or as the rules say.
func (t *Tier) decideAway(r *tierRequest, v *decider.Verdict) error {
	*v = decider.Verdict{At: t.clock.Now(), Answers: v.Answers[:0]}
	c := choose(r.rs, r.k, t.cfg.Away)
	if err := t.decideAlone(r.rs, r.k, r.req, &c, tierRetry, v, true); err != nil {
		return err
	}
	r.alone, v.Step = &c, c.step
	t.note(r.req.Key, v)
	return nil
}

// decided notes a decision of the leaf or the upstream.
func (t *Tier) decided(r *tierRequest, v *decider.Verdict, final bool) {
	switch t.note(r.req.Key, v); {
	case v.OK && final:
		t.countAllowed(r)
	case !v.OK && v.Reason != 0 && r.req.N > 0:
		t.countDenied(r, v)
	}
}

func (t *Tier) countAllowed(r *tierRequest) {
	if r.req.N == 0 {
		return
	}
	if len(r.k.List) == 0 {
		t.unmatchedAllowed.Add(1)
	}
	for _, rule := range r.k.Rated {
		r.rs.at(rule).counts.allowed.add(r.k.Print)
	}
	r.k.Known.Count(true, false)
}

func (t *Tier) countDenied(r *tierRequest, v *decider.Verdict) {
	if r.req.Quota != nil {
		t.countOwnDenied(r.rs, r.k, v.Reason)
		return
	}
	r.k.Known.Count(false, false)
	if rule := r.k.Denying(v); rule != nil {
		r.rs.at(rule).counts.denied.Add(v.Reason)
	}
}

// leafMark is added to Grant.Rules of grants by assignments.
const leafMark = 0x6c65_6166_6c65_6166

// grantOf returns the grant of a request that the leaf has allowed.
func (t *Tier) grantOf(r *tierRequest) decider.Grant {
	n := r.req.N
	if n == 0 {
		return decider.Grant{}
	}
	at := t.leaf.Now().Truncate(usage.Grain) // so that the id, which rounds, tells it exactly
	return decider.Grant{N: n, At: (at + t.leafAhead()).Round(usage.Grain), Rules: r.terms.rule.mark() + leafMark}
}
