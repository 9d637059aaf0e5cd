package httpapi

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/ratelimitfield"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A policy is a rule in the terms of RateLimit-Policy and RateLimit.
type policy struct {
	name  string     // quoted
	quota gcra.Quota // of a token bucket
	fixed bool       // fixed windows
	limit int
	item  string   // of RateLimit-Policy
	value []string // RateLimit-Policy with this item alone
}

func newPolicy(r *config.Rule) *policy {
	p := &policy{name: ratelimitfield.Quote(r.Name), limit: r.Limit()}
	var says ratelimitfield.Policy
	switch r.Algorithm {
	case config.Fixed:
		p.fixed = true
		says = ratelimitfield.OfWindow(r.Rate.Count, r.Rate.Period)
	case config.Sliding:
		says = ratelimitfield.OfWindow(r.Rate.Count, r.Rate.Period)
	default:
		p.quota = gcra.Per(r.Rate.Count, r.Rate.Period, p.limit)
		says = ratelimitfield.OfBucket(&p.quota)
	}
	p.item = string(says.Append(nil, p.name))
	p.value = []string{p.item}
	return p
}

// untilMore returns when more tokens will be available, or weir.Never if that is
// unknown.
func (p *policy) untilMore(left int, d *weir.Decision) time.Duration {
	switch {
	case p.quota != gcra.Quota{}:
		return ratelimitfield.UntilMore(&p.quota, left, d)
	case !d.OK:
		return d.RetryAfter
	case p.fixed:
		return d.ResetAfter // all of it at once
	}
	return weir.Never
}

// policies caches the policy of each rule.
type policies struct {
	byRule sync.Map // *policy by *config.Rule
	n      atomic.Int64
}

// maxPolicies bounds the cache. When it is full, it starts afresh, without the
// rules that are gone.
const maxPolicies = 4096

// policy returns the policy of a rule.
func (a *API) policy(r *config.Rule) *policy {
	cache := a.policies.Load()
	if p, ok := cache.byRule.Load(r); ok {
		return p.(*policy)
	}
	p := newPolicy(r)
	if cache.n.Add(1) > maxPolicies {
		cache = new(policies)
		a.policies.Store(cache)
	}
	cache.byRule.Store(r, p)
	return p
}

// writeFields writes RateLimit and RateLimit-Policy. It leaves out shadow rules,
// because a client that heeded them would distort the trial.
func (c *call) writeFields() {
	if c.api.cfg.NoFields {
		return
	}
	var buf [160]byte
	left, only, all := buf[:0], []string(nil), []byte(nil)
	for i := range c.verdict.Answers {
		a := &c.verdict.Answers[i]
		if a.Rule.Mode == config.Shadow {
			continue
		}
		p := c.api.policy(a.Rule)
		left = p.appendLeft(left, &c.verdict, i, c.request.N)
		switch {
		case only == nil:
			only = p.value
		case all == nil:
			all = append(all, only[0]...)
			fallthrough
		default:
			all = append(append(all, ", "...), p.item...)
		}
	}
	if only == nil {
		return
	}
	if all != nil {
		only = []string{string(all)}
	}
	h := c.w.Header()
	h["Ratelimit-Policy"] = only
	h["Ratelimit"] = []string{string(left)}
}

// appendLeft appends the item of RateLimit for an answer. If a later rule denied,
// the tokens of this answer were returned.
func (p *policy) appendLeft(b []byte, v *decider.Verdict, i, n int) []byte {
	a := &v.Answers[i]
	left := a.Remaining
	if a.OK && !v.OK {
		left = min(left+n, p.limit)
	}
	return ratelimitfield.AppendLeft(b, p.name, left, p.untilMore(left, &a.Decision))
}
