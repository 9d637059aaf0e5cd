package lease

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// inForce has the Limits of the rules of a Set. It does not change.
type inForce struct {
	set    *rules.Set
	limits []*Limits // by Rule.Index; none if rules overlay each other: they grant no leases
	before *inForce  // between Use and the end of Publish
}

// Of returns the limits of a rule; nil if it has none, or if its Set is not in force any more.
func (g *Registry) Of(set *rules.Set, r *rules.Rule) *Limits {
	for v := g.rules.Load(); v != nil; v = v.before {
		if v.set == set && len(v.limits) > 0 {
			return v.limits[r.Index]
		}
	}
	return nil
}

// InForce yields the rules that were last passed to Use, with their limits.
func (g *Registry) InForce(yield func(*rules.Rule, *Limits) bool) {
	v := g.rules.Load()
	if v == nil {
		return
	}
	for i, l := range v.limits {
		if !yield(v.set.Rules[i], l) {
			return
		}
	}
}

// ByName returns the limits of these rules by their names.
func (g *Registry) ByName() map[string]*Limits {
	all := map[string]*Limits{}
	for r, l := range g.InForce {
		all[r.Name] = l
	}
	return all
}

// Gone returns the limits of rules that are gone, by name, under which leases are held. It must not be called
// concurrently with Use.
func (g *Registry) Gone() map[string]*Limits { return maps.Clone(g.gone) }

// Named returns the limits of a rule by its name. If it is gone, it has limits while leases are held under them. It must not
// be called concurrently with Use.
func (g *Registry) Named(name string, per config.Per) *Limits {
	if l := g.ByName()[name]; l != nil {
		return l
	}
	l := g.gone[name]
	if l == nil {
		l = g.newLimits(name, per, nil)
		g.gone[name] = l
	}
	return l
}

// Use makes the limits of rules, or takes those of the rules that they replace. Publish puts them into force.
func (g *Registry) Use(next *rules.Set) {
	was, v := g.ByName(), &inForce{set: next}
	if now := g.rules.Load(); now != nil {
		v.before = &inForce{set: now.set, limits: now.limits}
	}
	for _, r := range next.Rules {
		if next.Config.Merge {
			break
		}
		l := cmp.Or(was[r.Name], g.gone[r.Name])
		if l == nil || l.Per != r.Per {
			l = g.newLimits(r.Name, r.Per, r.Concurrency)
		}
		v.limits = append(v.limits, l)
	}
	g.rules.Store(v)
}

// Publish puts the rules of Use into force: publish lets requests find them. Requests that wait go on to wait under these.
// Limits of rules that are gone are kept while leases are held under them: if the rule comes back, these count.
func (g *Registry) Publish(publish func()) {
	v := g.rules.Load()
	plans := map[string]Plan{}
	find := func(key string) Plan {
		p, known := plans[key]
		if !known {
			p, _ = g.plan(v.set.Find(key), key, nil)
			plans[key] = p
		}
		return p
	}
	for _, key := range g.waiting() { // most keys, without blocking the requests
		find(key)
	}
	terms := map[*Limits]*config.Concurrency{}
	if v.before != nil {
		for i, l := range v.before.limits {
			terms[l], g.gone[v.before.set.Rules[i].Name] = nil, l
		}
	}
	for r, l := range g.InForce {
		terms[l] = r.Concurrency
	}
	g.change(&change{rules: v.set.ID, terms: terms, plan: find, publish: publish})
	g.rules.Store(&inForce{set: v.set, limits: v.limits})
	byName := v.set.ByName()
	maps.DeleteFunc(g.gone, func(name string, l *Limits) bool { return byName[name] != nil || l.Held() == 0 })
}

// TermsOf returns the terms of a lease under all of these rules, and whether
// any of them grants leases. Shadow rules matter only if there are no others.
func TermsOf(list []*rules.Rule) (rules.LeaseTerms, bool) {
	for _, shadow := range []bool{false, true} {
		t, ok := rules.LeaseTerms{TTL: rules.MaxSpan, MaxTTL: rules.MaxSpan}, false
		for _, r := range list {
			if c := r.Concurrency; c != nil && (r.Mode == config.Shadow) == shadow {
				t.TTL = min(t.TTL, cmp.Or(c.TTL, config.DefaultTTL))
				t.MaxTTL = min(t.MaxTTL, MaxTTL(c))
				ok = true
			}
		}
		if ok {
			t.TTL = min(t.TTL, t.MaxTTL)
			return t, true
		}
	}
	return rules.LeaseTerms{}, false
}

// plan returns the Plan of leases of a key: it appends the rules of the match that grant leases to under, and uses
// its memory. It returns false if the rules have changed since the match was found.
func (g *Registry) plan(m *rules.Match, key string, under []Under) (Plan, bool) {
	terms, _ := TermsOf(m.List)
	for _, r := range m.List {
		if r.Concurrency == nil {
			continue
		}
		l := g.Of(m.Set, r)
		if l == nil {
			return Plan{}, false
		}
		under = append(under, Under{Limits: l, Bucket: r.Bucket(key), Shadow: r.Mode == config.Shadow})
	}
	return newPlan(m.Set.ID, terms, under), true
}

// Acquire grants a lease under the rules of a match. The error is waiting.ErrMoved if these are not in force any more: then
// the caller must ask again, with the Wait. See decider.Decider.
func (g *Registry) Acquire(ctx context.Context, m *rules.Match, req decider.LeaseRequest, again Wait) (decider.Lease, Wait, error) {
	p, ok := g.plan(m, req.Key, make([]Under, 0, 8))
	if !ok {
		return decider.Lease{}, again, waiting.ErrMoved
	}
	l, err := g.acquire(ctx, &req, p, &again)
	if err != nil && len(p.under) > 0 {
		first := p.under[0].Limits
		g.Recorder.Refusal(first.name, g.clock.Now()-again.began, first.Held(), err)
	}
	return l, again, err
}

// Renew extends a lease of a key with the rules of a match. The error is waiting.ErrMoved if these are not in force any more.
// See decider.Decider.
func (g *Registry) Renew(_ context.Context, m *rules.Match, key, id string, ttl time.Duration) (decider.Lease, error) {
	l, err := g.renew(key, id, ttl)
	if err == nil || !g.Recovering() {
		return l, err
	}
	switch p, ok := g.plan(m, key, nil); {
	case !ok:
		return l, waiting.ErrMoved
	case len(p.under) == 0:
		return l, err
	default:
		return g.adopt(key, id, ttl, p.terms, p.under)
	}
}

// Return ends a lease of a key with the rules of a match. The error is waiting.ErrMoved if these are not in force any more.
// See decider.Decider.
func (g *Registry) Return(_ context.Context, m *rules.Match, key, id string, o weir.Outcome) error {
	err := g.giveBack(key, id, o)
	if err == nil || !g.Recovering() {
		return err
	}
	switch p, ok := g.plan(m, key, nil); {
	case !ok:
		return waiting.ErrMoved
	case g.ended(key, id, p.under):
		return nil
	}
	return err
}

// Look sets the states of the leases of a key under the rules of a match. The error is waiting.ErrMoved if these are not in
// force any more.
func (g *Registry) Look(_ context.Context, m *rules.Match, key string, states []decider.RuleState) error {
	for i, r := range m.List {
		if r.Concurrency == nil {
			continue
		}
		l := g.Of(m.Set, r)
		if l == nil {
			return waiting.ErrMoved
		}
		bucket := r.Bucket(key)
		states[i].Lease = l.state(bucket, r.Route(bucket), r.Concurrency)
	}
	return nil
}

// Stats returns the counts of a rule.
func (g *Registry) Stats(set *rules.Set, r *rules.Rule) Stats {
	if l := g.Of(set, r); l != nil {
		return l.Stats()
	}
	return Stats{}
}
