package httpapi

import (
	"cmp"
	"unsafe"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/ratelimitfield"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A policy is a rule in the terms of RateLimit-Policy and RateLimit.
type policy struct {
	name  string     // quoted
	quota gcra.Quota // of a token bucket
	field []string   // RateLimit-Policy with this rule alone
}

func newPolicy(r *decider.RuleRef) *policy {
	p := &policy{name: ratelimitfield.Quote(r.Name)}
	says := ratelimitfield.OfWindow(r.Rate.Count, r.Rate.Period)
	if !r.Windows() {
		p.quota = gcra.Per(r.Rate.Count, r.Rate.Period, r.Limit)
		says = ratelimitfield.OfBucket(p.quota.Burst(), p.quota.Rate())
	}
	p.field = []string{string(says.Append(nil, p.name))}
	return p
}

// maxPolicies bounds the cache of policies. When it is full, it starts afresh, without
// the rules that are gone.
const maxPolicies = 4096

// policy returns the policy of a rule. The last one is kept, because most answers are about the same rule.
func (c *call) policy(r *decider.RuleRef) *policy {
	if c.lastRule != r {
		c.lastRule, c.lastPolicy = r, c.api.policy(r)
	}
	return c.lastPolicy
}

func (a *API) policy(r *decider.RuleRef) *policy {
	if p, ok := a.policies.Load(r); ok {
		return p.(*policy)
	}
	if a.policiesMade.Add(1)%maxPolicies == 0 {
		a.policies.Clear()
	}
	p := newPolicy(r)
	a.policies.Store(r, p)
	return p
}

// maxFields bounds the rules in a field, besides the one that denied: proxies and
// clients refuse answers with long headers.
const maxFields = 16

// writeFields writes RateLimit and RateLimit-Policy. It leaves out shadow rules,
// because a client that heeded them would distort the trial.
func (c *call) writeFields() {
	if c.api.cfg.Fields == FieldsNone {
		return
	}
	params := ratelimitfield.Draft
	if c.api.cfg.Fields == FieldsNext {
		params = ratelimitfield.Next
	}
	left, value := c.left[:0], "" // of more than one policy
	var first *policy
	items, denied := 0, c.verdict.Denied()
	for i := range c.verdict.Answers {
		a := &c.verdict.Answers[i]
		if a.Rule.Shadow() || items >= maxFields && a != denied {
			continue
		}
		items++
		p := c.policy(a.Rule)
		left = p.appendLeft(left, params, &c.verdict, a, c.request.N)
		if items == 1 {
			first = p
		} else {
			value = cmp.Or(value, first.field[0]) + ", " + p.field[0]
		}
	}
	if c.left = left; first == nil {
		return
	}
	h := c.w.Header()
	if h["Ratelimit-Policy"] = first.field; value != "" {
		h["Ratelimit-Policy"] = []string{value}
	}
	h["Ratelimit"] = c.values.add(left)
}

// values are header fields with one value each, which are never changed. Many share an allocation.
type values struct {
	texts []byte
	all   []string
}

// add returns the values of a field.
func (v *values) add(text []byte) []string {
	if len(text) > cap(v.texts)-len(v.texts) {
		v.texts = make([]byte, 0, max(8<<10, len(text)))
	}
	if len(v.all) == cap(v.all) {
		v.all = make([]string, 0, 256)
	}
	from, n := len(v.texts), len(v.all)
	v.texts = append(v.texts, text...)
	v.all = append(v.all, unsafe.String(unsafe.SliceData(v.texts[from:]), len(text)))
	return v.all[n : n+1 : n+1]
}

// forbidStore keeps caches from repeating a grant.
func (c *call) forbidStore() {
	if !c.unstored {
		c.unstored = true
		c.w.Header()["Cache-Control"] = noStore
	}
}

// writeStep writes Weir-Degraded for a decision that is degraded.
func (c *call) writeStep(step decider.Step) {
	if step.Degraded() {
		c.w.Header()["Weir-Degraded"] = []string{step.String()}
	}
}

// appendLeft appends the item of RateLimit for an answer. If a later rule denied,
// the tokens of this answer were returned.
func (p *policy) appendLeft(b []byte, params ratelimitfield.Params, v *decider.Verdict, a *decider.Answer, n int) []byte {
	left, more := a.Remaining, weir.Never
	if a.OK && !v.OK {
		left = min(left+n, a.Rule.Limit)
	}
	switch {
	case !a.Rule.Windows():
		more = ratelimitfield.UntilMore(p.quota.Burst(), p.quota.Rate(), left, &a.Decision)
	case !a.OK:
		more = a.RetryAfter
	case a.Rule.Resets():
		more = a.ResetAfter // all of it at once
	}
	return params.AppendLeft(b, p.name, left, more)
}
