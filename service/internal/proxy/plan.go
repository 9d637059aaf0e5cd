package proxy

import (
	"cmp"
	"maps"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/pathshape"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/tally"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/settings"
)

// A plan is the result of a file of rules. It does not change: a reload replaces it, and
// passes on the limiters, counts, buckets and caches that the new file still has.
type plan struct {
	rules    *proxyrule.Rules           // empty without a file
	ruled    bool                       // there is a file
	shadow   bool                       // of everything
	classes  []*class                   // in the order of the file; other is the last one
	other    *class                     // the class default
	limiters map[string]*limits.Limiter // by name
	total    *limits.Limiter            // of all classes; nil: none
	fair     limits.Fairness

	health      origins.Health
	guard       *pressure.Guard // nil: none
	maxPressure float64

	routes  *proxyrule.Routes // of the classes
	classOf map[string]int    // index of the class, by pattern
	reader  *proxyrule.Reader
	buckets map[string]*proxyrule.Buckets // by rule
	rates   *httplimit.Middleware         // nil without rules

	deciding atomic.Int64 // requests about which the rules decide
}

// A builder makes a plan. It changes nothing that is in use: changes collects that.
type builder struct {
	proxy   *Proxy
	old     *plan // nil for the first plan
	changes []func()
	*plan
}

// newPlan makes a plan. The function apply puts the settings of what both plans have into
// force. Proxy.mu must be held until after that.
func (p *Proxy) newPlan(rules *proxyrule.Rules, ruled bool) (next *plan, apply func(), err error) {
	b := &builder{proxy: p, old: p.plan.Load(), plan: &plan{
		rules: rules, ruled: ruled, shadow: p.cfg.Shadow || rules.Mode == proxyrule.Shadow, reader: rules.Reader(),
		limiters: map[string]*limits.Limiter{}, buckets: map[string]*proxyrule.Buckets{},
	}}
	b.fair = limits.NewFairness(rules.Fairness())
	b.routes, b.classOf = rules.ClassRoutes()
	b.health = origins.Health{Path: settings.Or(rules.HealthPath, p.cfg.HealthPath), Interval: settings.Or(rules.HealthInterval, p.cfg.HealthInterval)}
	if err := b.makeGuard(); err != nil {
		return nil, nil, err
	}
	if err := b.makeClasses(); err != nil {
		return nil, nil, err
	}
	if err := b.makeRates(); err != nil {
		return nil, nil, err
	}
	return b.plan, func() {
		for _, change := range b.changes {
			change()
		}
	}, nil
}

// makeClasses makes the classes and their limiters.
func (b *builder) makeClasses() (err error) {
	if t := b.rules.Total; t != nil {
		if b.total, err = b.limiter(proxyrule.TotalName, *t); err != nil {
			return err
		}
	}
	rest := cmp.Or(b.rules.Default, new(proxyrule.Class))
	shared, err := b.limiter(proxyrule.DefaultClass, rest.Concurrency)
	if err != nil {
		return err
	}
	for i := range b.rules.Classes {
		rule, of := &b.rules.Classes[i], shared
		if rule.Limit != nil {
			if of, err = b.limiter(rule.Name, rule.Concurrency); err != nil {
				return err
			}
		}
		if err = b.addClass(rule.Name, rule, of); err != nil {
			return err
		}
	}
	err = b.addClass(proxyrule.DefaultClass, rest, shared)
	b.other = b.classes[len(b.classes)-1]
	return err
}

// limiter returns the limiter of a name: the present one, if there is one and tenants
// share it as before. What a file leaves out comes from the Config.
func (b *builder) limiter(name string, l proxyrule.Concurrency) (*limits.Limiter, error) {
	p := b.proxy
	l = l.Over(p.given)
	to := limits.Settings{Limit: *l.Limit, Auto: l.Config(), SlowStart: settings.Duration(*l.SlowStart), Queue: *l.Queue, MaxWait: settings.Duration(*l.MaxWait)}
	var old *limits.Limiter
	if b.old != nil {
		old = b.old.limiters[name]
	}
	if old == nil || !old.SharedBy(b.fair) {
		made, err := limits.New(name, to, b.fair, old, p.origins, p.limitChanged(name))
		b.limiters[name] = made
		return made, err
	}
	b.limiters[name] = old
	apply, err := old.Configure(to)
	if apply != nil {
		b.changes = append(b.changes, apply)
	}
	return old, err
}

func (b *builder) addClass(name string, rule *proxyrule.Class, of *limits.Limiter) (err error) {
	cfg := &b.proxy.cfg
	c := &class{
		rule: rule, own: of.Name == name, guard: b.guard, maxBody: cmp.Or(cfg.MaxBody, -1),
		mixed:    b.total != nil || of.Name == proxyrule.DefaultClass || len(rule.Routes) != 1 || pathshape.Several(rule.Routes[0]),
		priority: weir.Priority(rule.Priority),
	}
	c.Class = forward.Class{Name: name, Timeout: cfg.Timeout, Gate: limits.Gate{Limiter: of, Total: b.total, Origins: b.proxy.origins, Shadow: b.shadow || rule.Mode == proxyrule.Shadow, Counts: tally.New(b.proxy.all)}}
	b.classes = append(b.classes, c)
	var before *class
	if b.old != nil {
		before = b.old.class(name)
	}
	if before != nil {
		c.Counts = before.Counts
	}
	if rule.MaxBody != nil {
		c.maxBody = cmp.Or(int64(*rule.MaxBody), -1)
	}
	if c.Shadow {
		return nil
	}
	if c.deadline = rule.Deadline; rule.Timeout != nil {
		c.Timeout = settings.OrNone(*rule.Timeout)
	}
	if rule.Cache != nil {
		c.Cached = true
		c.cache, err = b.cache(rule.Cache, before)
	}
	return err
}

// class returns the class of a name, or nil.
func (pl *plan) class(name string) *class {
	for _, c := range pl.classes {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// fieldsOf translates the header fields of the file.
var fieldsOf = map[proxyrule.Fields]httplimit.Fields{
	"": httplimit.FieldsDraft, proxyrule.FieldsDraft: httplimit.FieldsDraft, proxyrule.FieldsDelta: httplimit.FieldsDelta,
	proxyrule.FieldsUnix: httplimit.FieldsUnix, proxyrule.FieldsBoth: httplimit.FieldsDraft | httplimit.FieldsDelta,
	proxyrule.FieldsNone: httplimit.FieldsNone, proxyrule.FieldsNext: httplimit.FieldsDraftNext,
}

// makeRates makes what asks the rules.
func (b *builder) makeRates() error {
	if len(b.rules.Rules) == 0 {
		return nil
	}
	cfg := httplimit.Config{Exempt: []string{}, Shadow: b.shadow, Fields: fieldsOf[b.rules.Fields]}
	for i := range b.rules.Rules {
		rule := &b.rules.Rules[i]
		var before *proxyrule.Buckets
		if b.old != nil {
			before = b.old.buckets[rule.Name]
		}
		buckets := rule.Buckets(before)
		if buckets == before {
			b.changes = append(b.changes, func() { buckets.Set(rule) })
		}
		b.buckets[rule.Name] = buckets
		cfg.Rules = append(cfg.Rules, rule.Rule(buckets))
	}
	var err error
	b.rates, err = httplimit.New(cfg)
	return err
}

// use puts a plan into force. Proxy.mu must be held.
func (p *Proxy) use(next *plan, apply func()) {
	old := p.plan.Load()
	apply()
	p.plan.Store(next)
	if old == nil {
		return
	}
	for name, l := range old.limiters {
		if next.limiters[name] != l {
			p.retired = append(p.retired, l)
		}
	}
	if old.rates != nil {
		p.decidingPlans = append(p.decidingPlans, old)
	}
	maps.DeleteFunc(p.ruleCounts, func(name string, _ ruleCounts) bool { return next.buckets[name] == nil })
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
		if old.deciding.Load() > 0 {
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
func (p *Proxy) addRuleCounts(to map[string]ruleCounts, of *plan) {
	if of.rates == nil {
		return
	}
	now := p.plan.Load()
	for _, s := range of.rates.Stats().Rules {
		if now.buckets[s.Name] != nil {
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
