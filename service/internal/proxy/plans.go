package proxy

import (
	"maps"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/service/internal/proxy/plan"
)

// use puts a plan into force. Proxy.mu must be held.
func (p *Proxy) use(next *plan.Plan, apply func()) {
	old := p.plan.Load()
	apply()
	p.plan.Store(next)
	if old == nil {
		return
	}
	for name, l := range old.Limiters {
		if next.Limiters[name] != l {
			p.retired = append(p.retired, l)
		}
	}
	if old.Rates != nil {
		p.decidingPlans = append(p.decidingPlans, old)
	}
	maps.DeleteFunc(p.ruleCounts, func(name string, _ ruleCounts) bool { return next.Buckets[name] == nil })
	p.forgetLocked()
}

// forgetLocked drops what earlier plans had and no request needs any more.
func (p *Proxy) forgetLocked() {
	keep := p.retired[:0]
	for _, l := range p.retired {
		if st := l.State(); st.Inflight > 0 || st.Waiting > 0 {
			keep = append(keep, l)
		}
	}
	clear(p.retired[len(keep):])
	p.retired = keep

	plans := p.decidingPlans[:0]
	for _, old := range p.decidingPlans {
		if old.Deciding.Load() > 0 {
			plans = append(plans, old)
		} else {
			p.addRuleCounts(p.ruleCounts, old)
		}
	}
	clear(p.decidingPlans[len(plans):])
	p.decidingPlans = plans
}

// ruleCounts are the counts of a rule.
type ruleCounts struct{ allowed, denied, wouldDeny uint64 }

// addRuleCounts adds the counts of a plan's rules, as far as the present plan has them.
func (p *Proxy) addRuleCounts(to map[string]ruleCounts, of *plan.Plan) {
	if of.Rates == nil {
		return
	}
	now := p.plan.Load()
	for _, s := range of.Rates.Stats().Rules {
		if now.Buckets[s.Name] != nil {
			c := to[s.Name]
			to[s.Name] = ruleCounts{c.allowed + s.Allowed, c.denied + s.Denied, c.wouldDeny + s.Shadowed}
		}
	}
}

// ruleTotals returns the counts of all rules of the present plan, by name.
func (p *Proxy) ruleTotals() map[string]ruleCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked()
	all := maps.Clone(p.ruleCounts)
	for _, old := range p.decidingPlans {
		p.addRuleCounts(all, old)
	}
	p.addRuleCounts(all, p.plan.Load())
	return all
}

// limitChanged returns the function that counts and logs the changes of a limiter.
func (p *Proxy) limitChanged(class string) func(inflight.Event) {
	return func(e inflight.Event) {
		p.metrics.limitChanges.WithLabelValues(e.Cause.String()).Inc()
		p.log.Debug("limit changed", "class", class, "was", e.Was, "limit", e.Limit, "cause", e.Cause.String(),
			"inflight", e.State.Inflight, "waiting", e.Waiting, "evidence", e.Evidence)
	}
}
