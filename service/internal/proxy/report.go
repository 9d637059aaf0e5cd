package proxy

import (
	"time"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/service/internal/proxy/condition"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/plan"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/settings"
)

// A Report is the answer to GET /-/status: the state of the proxy, of each class and of
// each rule. Counts are since the start. Counts of a class or a rule survive a reload if
// it keeps its name.
type Report struct {
	condition.Status
	Mode        string `json:"mode"` // enforce or shadow
	Abandoned   int    `json:"abandoned"`
	Connections int    `json:"connections"`

	File    *FileReport    `json:"file,omitempty"` // of rules; none without one
	Classes []ClassReport  `json:"classes"`        // the class default is the last one
	Rules   []RuleReport   `json:"rules"`          // in the order of the file
	Total   *limits.Report `json:"total,omitempty"`

	Pressure *plan.PressureReport `json:"pressure,omitempty"` // none without a bound

	// Former is the number of requests in flight of limits which a reload has removed.
	Former  int              `json:"former"`
	Origins []origins.Report `json:"origins"`
}

// A FileReport describes the file of rules and its loads.
type FileReport struct {
	Path     string     `json:"path"`
	Hash     string     `json:"hash"`             // of the content in force: 12 hexadecimal digits
	Loaded   time.Time  `json:"loaded"`           // the last load that succeeded
	Change   string     `json:"change,omitempty"` // what it has changed
	Error    string     `json:"error,omitempty"`  // of the last load, if that failed
	Failed   *time.Time `json:"failed,omitempty"` // the last load that failed
	Reloads  uint64     `json:"reloads"`          // that succeeded
	Failures uint64     `json:"failures"`
}

// A ClassReport describes a class of routes. A class without a limit shares that of the
// class default; its counts are its own.
type ClassReport struct {
	Name     string            `json:"name"`
	Routes   []string          `json:"routes,omitempty"`
	Mode     string            `json:"mode"`            // enforce or shadow
	Own      bool              `json:"own"`             // it has a limit; otherwise it shares the limit of the class default
	Limit    *limits.Report    `json:"limit,omitempty"` // nil if not Own
	Timeout  settings.Duration `json:"timeout"`         // 0: none
	Deadline settings.Duration `json:"deadline"`        // 0: none
	MaxBody  int64             `json:"max_body"`        // bytes; 0: no bound
	Priority string            `json:"priority"`

	// Each request is in exactly one of Denied, Rejected, Cancelled and Admitted, or waits, or
	// was answered by the cache; except that a request counts as admitted and as
	// too_large if the length of its body was not known and exceeds the bound.
	Requests  uint64            `json:"requests"`
	Denied    uint64            `json:"denied"` // by rules, or by the caller (CountDenied)
	Admitted  uint64            `json:"admitted"`
	Cancelled uint64            `json:"cancelled"` // the client left the queue
	Rejected  map[string]uint64 `json:"rejected"`  // by the limit, by reason; too_large; pressure
	Outcomes  map[string]uint64 `json:"outcomes"`  // of admitted requests that have ended
	Wasted    uint64            `json:"wasted"`    // of these, the ones that ended after their client had left, or their deadline
	// Waits counts the admitted requests by their time in the queue, as in inflight.Stats.
	Waits [len(inflight.WaitBounds) + 1]uint64 `json:"-"`
	// WouldReject counts what shadow mode let through, by reason. Over_limit includes the
	// requests that would have waited.
	WouldReject map[string]uint64 `json:"would_reject"`
	Cache       *CacheReport      `json:"cache,omitempty"`
}

// A CacheReport counts what the cache of a class did.
type CacheReport struct {
	Hits      uint64 `json:"hits"`
	Stale     uint64 `json:"stale"`
	Filled    uint64 `json:"filled"` // sent on, and kept if it may be; the limit may have rejected them
	Coalesced uint64 `json:"coalesced"`
	Failed    uint64 `json:"failed"`
	Passed    uint64 `json:"passed"`
	Rejected  uint64 `json:"rejected"`
	Entries   int    `json:"entries"`
	Bytes     int64  `json:"bytes"`
}

// A RuleReport describes a rule: a rate limit, or a limit of requests in flight.
type RuleReport struct {
	Name   string   `json:"name"`
	By     []string `json:"by,omitempty"` // sources of the key; none: one bucket
	Rate   string   `json:"rate,omitempty"`
	Burst  int      `json:"burst,omitempty"`
	Limit  int      `json:"limit,omitempty"` // of requests in flight, of each key
	Routes []string `json:"routes,omitempty"`
	Except []string `json:"except,omitempty"`
	Mode   string   `json:"mode"` // enforce or shadow

	Allowed   uint64 `json:"allowed"`
	Denied    uint64 `json:"denied"`
	WouldDeny uint64 `json:"would_deny"` // let through in shadow mode
}

// Report returns the state of everything.
func (p *Proxy) Report() Report {
	st, totals := p.Stats(), p.ruleTotals()
	r := Report{
		Status: p.Status(), Mode: modeOf(p.plan.Load().Shadow), Abandoned: st.Abandoned, Connections: st.Connections,
		Classes: []ClassReport{}, Rules: []RuleReport{},
	}
	for i := range st.Origins {
		r.Origins = append(r.Origins, st.Origins[i].Report())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.plan.Load()
	r.Pressure = pl.Pressure()
	if pl.Ruled {
		r.File = p.fileReportLocked(pl)
	}
	for _, c := range pl.Classes {
		r.Classes = append(r.Classes, reportClass(c))
	}
	if pl.Total != nil {
		r.Total = pl.Total.Report()
	}
	for _, l := range p.retired {
		if l.Name != proxyrule.TotalName {
			r.Former += l.CountForwards()
		}
	}
	for i := range pl.Rules.Rules {
		rule := &pl.Rules.Rules[i]
		n := totals[rule.Name]
		one := RuleReport{
			Name: rule.Name, Limit: rule.Limit, Routes: rule.Routes, Except: rule.Except,
			Mode: modeOf(pl.Shadow || rule.Mode == proxyrule.Shadow), Allowed: n.allowed, Denied: n.denied, WouldDeny: n.wouldDeny,
		}
		if rule.Limit == 0 {
			quota := rule.Quota()
			one.Rate, one.Burst = rule.Rate.String(), quota.Burst()
		}
		for _, k := range rule.By {
			one.By = append(one.By, k.String())
		}
		r.Rules = append(r.Rules, one)
	}
	return r
}

func modeOf(shadow bool) string {
	if shadow {
		return string(proxyrule.Shadow)
	}
	return string(proxyrule.Enforce)
}

func (p *Proxy) fileReportLocked(pl *plan.Plan) *FileReport {
	l := &p.reloads
	f := &FileReport{Path: p.cfg.RulesPath, Hash: pl.Rules.Hash, Loaded: l.loaded, Change: l.change, Reloads: l.count, Failures: l.failures}
	if l.err != nil {
		f.Error = l.err.Error()
	}
	if !l.failed.IsZero() {
		f.Failed = new(l.failed)
	}
	return f
}

// reportClass describes a class. Proxy.mu is held.
func reportClass(c *plan.Class) ClassReport {
	n := c.Counts.Stats()
	r := ClassReport{
		Name: c.Name, Routes: c.Rule.Routes, Mode: modeOf(c.Shadow), Own: c.Own, Timeout: settings.Duration(max(c.Timeout, 0)),
		Deadline: settings.Duration(c.Deadline), MaxBody: max(c.MaxBody, 0), Priority: proxyrule.Level(c.Priority).String(),
		Requests: n.Requests, Denied: n.Denied, Admitted: n.Admitted, Cancelled: n.Cancelled,
		Rejected: n.Refused, WouldReject: n.WouldRefuse, Outcomes: map[string]uint64{}, Wasted: n.Wasted, Waits: n.Waits,
	}
	for o, count := range n.Outcomes {
		r.Outcomes[o.String()] = count
	}
	if c.Own {
		r.Limit = c.Limiter.Report()
	}
	if c.Cache != nil {
		r.Cache = reportCache(c.Cache.Stats())
	}
	return r
}

// reportCache describes a cache by its counts.
func reportCache(s httpcache.Stats) *CacheReport {
	return &CacheReport{
		Hits: s.Lookups[cache.Hit], Stale: s.Lookups[cache.Stale], Filled: s.Lookups[cache.Filled], Coalesced: s.Lookups[cache.Coalesced],
		Failed: s.Lookups[cache.Failed], Passed: s.Passed, Rejected: s.Rejected, Entries: s.Entries, Bytes: s.Bytes,
	}
}
