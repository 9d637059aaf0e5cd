// Package ratefield writes the header fields RateLimit and RateLimit-Policy of answers.
package ratefield

import (
	"cmp"
	"net/http"
	"sync"
	"sync/atomic"
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

// Policies caches the policies of rules. It is safe for concurrent use.
type Policies struct {
	all  sync.Map // *policy by *decider.RuleRef
	made atomic.Uint64
}

func (ps *Policies) of(r *decider.RuleRef) *policy {
	if p, ok := ps.all.Load(r); ok {
		return p.(*policy)
	}
	if ps.made.Add(1)%maxPolicies == 0 {
		ps.all.Clear()
	}
	p := newPolicy(r)
	ps.all.Store(r, p)
	return p
}

// A Writer writes the fields of one answer after the other. It keeps the last policy, because most answers are about the
// same rule.
type Writer struct {
	left       []byte // RateLimit
	values     values
	lastRule   *decider.RuleRef
	lastPolicy *policy // of lastRule
}

// DropMemory gives up the memory of the values that were written.
func (w *Writer) DropMemory() { w.values = values{} }

func (w *Writer) policy(ps *Policies, r *decider.RuleRef) *policy {
	if w.lastRule != r {
		w.lastRule, w.lastPolicy = r, ps.of(r)
	}
	return w.lastPolicy
}

// maxFields bounds the rules in a field, besides the one that denied: proxies and
// clients refuse answers with long headers.
const maxFields = 16

// Write writes the fields for a verdict about n tokens. It leaves out shadow rules, because a client that heeded them
// would distort the trial.
func (w *Writer) Write(h http.Header, ps *Policies, params ratelimitfield.Params, v *decider.Verdict, n int) {
	left, value := w.left[:0], "" // of more than one policy
	var first *policy
	items, denied := 0, v.Denied()
	for i := range v.Answers {
		a := &v.Answers[i]
		if a.Rule.Shadow() || items >= maxFields && a != denied {
			continue
		}
		items++
		p := w.policy(ps, a.Rule)
		left = p.appendLeft(left, params, v, a, n)
		if items == 1 {
			first = p
		} else {
			value = cmp.Or(value, first.field[0]) + ", " + p.field[0]
		}
	}
	if w.left = left; first == nil {
		return
	}
	if h["Ratelimit-Policy"] = first.field; value != "" {
		h["Ratelimit-Policy"] = []string{value}
	}
	h["Ratelimit"] = w.values.add(left)
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
