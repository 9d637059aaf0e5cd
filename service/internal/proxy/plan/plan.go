// Package plan makes a file of rules ready for requests: classes of routes with their limits and caches, the rates, and the
// pressure above which requests are rejected. A Plan does not change; a reload makes another one.
package plan

import (
	"cmp"
	"net/http"
	"sync/atomic"
	"time"

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
	"github.com/weir-go/weir/service/internal/routeset"
	"github.com/weir-go/weir/service/internal/settings"
)

// A Plan is the result of a file of rules. It does not change: a reload replaces it, and
// passes on the limiters, counts, buckets and caches that the new file still has.
type Plan struct {
	Rules    *proxyrule.Rules           // empty without a file
	Ruled    bool                       // there is a file
	Shadow   bool                       // of everything
	Classes  []*Class                   // in the order of the file; other is the last one
	Other    *Class                     // the class default
	Limiters map[string]*limits.Limiter // by name
	Total    *limits.Limiter            // of all classes; nil: none
	fair     limits.Fairness

	Health      origins.Health
	guard       *pressure.Guard // nil: none
	maxPressure float64

	routes  *routeset.Set  // of the classes
	classOf map[string]int // index of the class, by pattern
	Reader  *proxyrule.Reader
	Buckets map[string]*proxyrule.Buckets // by rule
	Rates   *httplimit.Middleware         // nil without rules

	Deciding atomic.Int64 // requests about which the rules decide
}

// Config configures plans, for what a file of rules leaves out.
type Config struct {
	Shadow       bool // of everything, whatever the file says
	Given        proxyrule.Concurrency
	Health       origins.Health
	MaxPressure  float64 // 0: no bound
	PressureFile string
	MaxBody      int64         // bytes; 0: no bound
	Timeout      time.Duration // negative: none
	Origins      *origins.Set
	All          *tally.Counts // of all classes
	// LimitChanged returns the function that is called when a limit changes.
	LimitChanged func(class string) func(inflight.Event)
	// CacheKey returns what a request names, and Fill answers a request that a cache does not answer.
	CacheKey func(*http.Request) (key string, ok bool)
	Fill     http.Handler
}

// A builder makes a plan. It changes nothing that is in use: changes collects that.
type builder struct {
	cfg     *Config
	old     *Plan // nil for the first plan
	changes []func()
	*Plan
}

// New makes a plan. The function apply puts the settings of what both it and the plan before have into
// force. The lock of the settings of limits must be held until after that.
func New(cfg *Config, old *Plan, rules *proxyrule.Rules, ruled bool) (next *Plan, apply func(), err error) {
	b := &builder{cfg: cfg, old: old, Plan: &Plan{
		Rules: rules, Ruled: ruled, Shadow: cfg.Shadow || rules.Mode == proxyrule.Shadow, Reader: rules.Reader(),
		Limiters: map[string]*limits.Limiter{}, Buckets: map[string]*proxyrule.Buckets{},
	}}
	b.fair = limits.NewFairness(rules.Fairness())
	b.routes, b.classOf = rules.ClassRoutes()
	b.Health = origins.Health{
		Path: settings.Or(rules.HealthPath, cfg.Health.Path), Interval: settings.Or(rules.HealthInterval, cfg.Health.Interval),
	}
	if err := b.makeGuard(); err != nil {
		return nil, nil, err
	}
	if err := b.makeClasses(); err != nil {
		return nil, nil, err
	}
	if err := b.makeRates(); err != nil {
		return nil, nil, err
	}
	return b.Plan, func() {
		for _, change := range b.changes {
			change()
		}
	}, nil
}

// makeGuard makes the guard of the plan: the present one, if there is one.
func (b *builder) makeGuard() (err error) {
	share := settings.Or(b.Rules.MaxPressure, b.cfg.MaxPressure)
	if share == 0 {
		return nil
	}
	b.maxPressure = share
	if b.old != nil && b.old.guard != nil {
		b.guard = b.old.guard
		b.changes = append(b.changes, func() { _ = b.guard.SetMax(share) }) // it has been checked
		return nil
	}
	b.guard, err = pressure.New(pressure.Config{Max: share, Path: b.cfg.PressureFile})
	return err
}

// makeClasses makes the classes and their limiters.
func (b *builder) makeClasses() (err error) {
	if t := b.Rules.Total; t != nil {
		if b.Total, err = b.makeLimiter(proxyrule.TotalName, *t); err != nil {
			return err
		}
	}
	rest := cmp.Or(b.Rules.Default, new(proxyrule.Class))
	shared, err := b.makeLimiter(proxyrule.DefaultClass, rest.Concurrency)
	if err != nil {
		return err
	}
	for i := range b.Rules.Classes {
		rule, of := &b.Rules.Classes[i], shared
		if rule.Limit != nil {
			if of, err = b.makeLimiter(rule.Name, rule.Concurrency); err != nil {
				return err
			}
		}
		if err = b.addClass(rule.Name, rule, of); err != nil {
			return err
		}
	}
	err = b.addClass(proxyrule.DefaultClass, rest, shared)
	b.Other = b.Classes[len(b.Classes)-1]
	return err
}

// makeLimiter returns the limiter of a name: the present one, if there is one and tenants
// share it as before. What a file leaves out comes from the Config.
func (b *builder) makeLimiter(name string, l proxyrule.Concurrency) (*limits.Limiter, error) {
	l = l.Over(b.cfg.Given)
	to := limits.Settings{Limit: *l.Limit, Auto: l.Config(), SlowStart: settings.Duration(*l.SlowStart), Queue: *l.Queue, MaxWait: settings.Duration(*l.MaxWait)}
	var old *limits.Limiter
	if b.old != nil {
		old = b.old.Limiters[name]
	}
	if old == nil || !old.SharedBy(b.fair) {
		made, err := limits.New(name, to, b.fair, old, b.cfg.Origins, b.cfg.LimitChanged(name))
		b.Limiters[name] = made
		return made, err
	}
	b.Limiters[name] = old
	apply, err := old.Configure(to)
	if apply != nil {
		b.changes = append(b.changes, apply)
	}
	return old, err
}

func (b *builder) addClass(name string, rule *proxyrule.Class, of *limits.Limiter) (err error) {
	cfg := b.cfg
	c := &Class{
		Rule: rule, Own: of.Name == name, Guard: b.guard, MaxBody: cmp.Or(cfg.MaxBody, -1),
		mixed:    b.Total != nil || of.Name == proxyrule.DefaultClass || len(rule.Routes) != 1 || pathshape.Several(rule.Routes[0]),
		Priority: weir.Priority(rule.Priority),
	}
	c.Class = forward.Class{Name: name, Timeout: cfg.Timeout, Gate: limits.Gate{Limiter: of, Total: b.Total, Origins: cfg.Origins, Shadow: b.Shadow || rule.Mode == proxyrule.Shadow, Counts: tally.New(cfg.All)}}
	if !c.mixed {
		c.Route = rule.Routes[0]
	}
	b.Classes = append(b.Classes, c)
	var before *Class
	if b.old != nil {
		before = b.old.ClassNamed(name)
	}
	if before != nil {
		c.Counts = before.Counts
	}
	if rule.MaxBody != nil {
		c.MaxBody = cmp.Or(int64(*rule.MaxBody), -1)
	}
	if c.Shadow {
		return nil
	}
	if c.Deadline = rule.Deadline; rule.Timeout != nil {
		c.Timeout = settings.OrNone(*rule.Timeout)
	}
	if rule.Cache != nil {
		c.Cached = true
		c.Cache, err = b.makeCache(rule.Cache, before)
	}
	return err
}

// ClassNamed returns the class of a name, or nil.
func (pl *Plan) ClassNamed(name string) *Class {
	for _, c := range pl.Classes {
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
	if len(b.Rules.Rules) == 0 {
		return nil
	}
	cfg := httplimit.Config{Exempt: []string{}, Shadow: b.Shadow, Fields: fieldsOf[b.Rules.Fields]}
	for i := range b.Rules.Rules {
		rule := &b.Rules.Rules[i]
		var before *proxyrule.Buckets
		if b.old != nil {
			before = b.old.Buckets[rule.Name]
		}
		buckets := rule.Buckets(before)
		if buckets == before {
			b.changes = append(b.changes, func() { buckets.Set(rule) })
		}
		b.Buckets[rule.Name] = buckets
		cfg.Rules = append(cfg.Rules, rule.Rule(buckets))
	}
	var err error
	b.Rates, err = httplimit.New(cfg)
	return err
}
