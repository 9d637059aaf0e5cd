package proxy

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/service/internal/logqueue"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/plan"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// reloads is the outcome of the loads so far.
type reloads struct {
	log      *logqueue.Latest
	loaded   time.Time // the last load that succeeded
	change   string    // by it
	failed   time.Time // the last load that failed
	err      error     // of the last load
	count    uint64    // that succeeded after the first
	failures uint64
}

// concurrency returns the limits of the Config.
func (c *Config) concurrency() proxyrule.Concurrency {
	queue := max(cmp.Or(c.Queue, inflight.DefaultQueue), 0)
	wait := max(cmp.Or(c.MaxWait, inflight.DefaultMaxWait), 0)
	return proxyrule.Concurrency{
		Limit: &c.Limit, SlowStart: &c.SlowStart, Queue: &queue, MaxWait: &wait,
		InitialLimit: c.Auto.Initial, MinLimit: c.Auto.Min, MaxLimit: c.Auto.Max, MaxHealthyLatency: c.Auto.MaxHealthyLatency,
	}
}

// load puts the rules into force, and returns a summary of the changes. After an error,
// nothing has changed.
func (p *Proxy) load() (change string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rules, ruled := new(proxyrule.Rules), p.cfg.LoadRules != nil
	if ruled {
		if rules, err = p.cfg.LoadRules(); err != nil {
			return "", err
		}
	}
	old := p.plan.Load()
	next, apply, err := plan.New(p.planConfig(), old, rules, ruled)
	if err != nil {
		return "", fmt.Errorf("proxy: %w", err)
	}
	p.use(next, apply)
	p.reloads.loaded = time.Now()
	if old != nil {
		change = proxyrule.Diff(old.Rules, rules)
	}
	return change, nil
}

// Reload loads the rules again. After an error, the last good ones stay in force as a
// whole. Rules, classes and limits that are still there keep their tokens, counts, learned
// limits and queues.
func (p *Proxy) Reload() (change string, err error) {
	change, err = p.load()
	p.mu.Lock()
	r := &p.reloads
	if r.err = err; err == nil {
		r.change = change
		r.count++
	} else {
		r.failed = time.Now()
		r.failures++
	}
	p.mu.Unlock()
	if err != nil {
		p.reloads.log.Log(slog.LevelError, "reload failed: the last good rules stay in force", "path", p.cfg.RulesPath, "error", err)
	} else {
		p.reloads.log.Log(slog.LevelInfo, "reloaded", "path", p.cfg.RulesPath, "change", change, "hash", p.plan.Load().Rules.Hash)
	}
	return change, err
}

// serveReload answers POST /-/reload.
func (p *Proxy) serveReload(w http.ResponseWriter, _ *http.Request) {
	if p.cfg.LoadRules == nil {
		http.Error(w, "nothing to reload: there is no file of rules", http.StatusNotFound)
		return
	}
	change, err := p.Reload()
	if err != nil {
		operator.Fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	operator.Answer(w, http.StatusOK, operator.Reloaded{Change: change, Hash: p.plan.Load().Rules.Hash})
}

// planConfig returns what the plans are made with.
func (p *Proxy) planConfig() *plan.Config {
	return &plan.Config{
		Shadow: p.cfg.Shadow, Given: p.cfg.concurrency(), Health: origins.Health{Path: p.cfg.HealthPath, Interval: p.cfg.HealthInterval},
		MaxPressure: p.cfg.MaxPressure, PressureFile: p.cfg.PressureFile, MaxBody: p.cfg.MaxBody, Timeout: p.cfg.Timeout,
		Origins: p.origins, All: p.all, LimitChanged: p.limitChanged, CacheKey: cacheKey, Fill: http.HandlerFunc(p.fillCache),
	}
}
