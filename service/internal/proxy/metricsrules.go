package proxy

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/proxy/plan"
	"github.com/weir-go/weir/service/internal/proxy/tally"
)

// The metrics of classes, rules, caches and the file of rules. Their labels come from the
// file, never from a request.
var (
	classLimit    = metric.Gauge("weir_proxy_class_limit", "Requests that may be in flight, of each class with a limit, and in total.", "class")
	classInflight = metric.Gauge("weir_proxy_class_inflight", "Requests in flight within each limit.", "class")
	classWaiting  = metric.Gauge("weir_proxy_class_waiting", "Requests in the queue of each limit.", "class")
	classBound    = metric.Gauge("weir_proxy_class_bound", "Bounds of weir_proxy_class_limit and weir_proxy_class_waiting: min_limit of an adaptive limit, as configured, and queue.", "class", "of")
	classPatience = metric.Gauge("weir_proxy_class_patience_seconds",
		"Age of a request at which nearly all clients have left, as each limit has learnt it; 0 if it is not known.", "class")
	classOutcomes  = metric.Counter("weir_proxy_class_outcomes_total", "Finished requests of each class, by what they tell about load.", "class", "outcome")
	classWasted    = metric.Counter("weir_proxy_class_wasted_total", "Admitted requests of each class that ended after their client had left, or their deadline.", "class")
	classWait      = metric.Histogram("weir_proxy_class_wait_seconds", "Time that admitted requests of each class waited for a permit.", "class")
	classRequests  = metric.Counter("weir_proxy_class_requests_total", "Requests of each class.", "class")
	classDecisions = metric.Counter("weir_proxy_class_decisions_total",
		"Decisions about requests of each class: admit, cancel, deny (by a rule), reject, or would_reject (in shadow mode).", "class", "decision", "reason")
	ruleDecisions = metric.Counter("weir_proxy_rule_decisions_total", "Decisions of each rule: allow, deny, or would_deny (in shadow mode).", "rule", "decision")
	cacheRequests = metric.Counter("weir_proxy_cache_requests_total",
		"Requests to the cache of each class, by what it did: hit, stale, filled, coalesced, failed, passed or rejected.", "class", "result")
	cacheBytes     = metric.Gauge("weir_proxy_cache_bytes", "Memory for responses in the cache of each class.", "class")
	rulesLoaded    = metric.Gauge("weir_proxy_rules_last_reload_success_timestamp_seconds", "When the rules in force were loaded, in seconds since 1970.")
	rulesGood      = metric.Gauge("weir_proxy_rules_last_reload_successful", "Whether the last load of the file of rules succeeded.")
	rulesFailures  = metric.Counter("weir_proxy_rules_reload_failures_total", "Loads of the file of rules that failed; the last good rules stayed in force.")
	shadowFamily   = metric.Gauge("weir_proxy_shadow", "Whether the whole proxy is in shadow mode.")
	familiesOfFile = []*metric.Family{classLimit, classBound, classInflight, classWaiting, classPatience, classOutcomes, classWasted, classWait, classRequests, classDecisions, ruleDecisions, cacheRequests, cacheBytes,
		rulesLoaded, rulesGood, rulesFailures, shadowFamily}
)

// collectRules sends the metrics of classes, rules and caches.
func (p *Proxy) collectRules(s metric.Scrape) {
	totals := p.ruleTotals()
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.plan.Load()
	s.Send(shadowFamily, flag(pl.Shadow))
	for name, l := range pl.Limiters {
		st := l.State()
		s.Send(classPatience, l.Patience().Seconds(), name)
		s.Send(classLimit, float64(st.Limit), name)
		s.Send(classBound, float64(l.Queue()), name, "queue")
		if n, adaptive := l.MinLimit(); adaptive {
			s.Send(classBound, float64(n), name, "min_limit")
		}
		s.Send(classInflight, float64(st.Inflight), name)
		s.Send(classWaiting, float64(st.Waiting), name)
	}
	for _, c := range pl.Classes {
		collectClass(s, c)
	}
	for name := range pl.Buckets {
		n := totals[name]
		s.Send(ruleDecisions, float64(n.allowed), name, "allow")
		s.Send(ruleDecisions, float64(n.denied), name, "deny")
		s.Send(ruleDecisions, float64(n.wouldDeny), name, "would_deny")
	}
	if pl.Ruled {
		s.Send(rulesLoaded, float64(p.reloads.loaded.UnixMilli())/1000)
		s.Send(rulesGood, flag(p.reloads.err == nil))
		s.Send(rulesFailures, float64(p.reloads.failures))
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// collectClass sends the metrics of a class.
func collectClass(s metric.Scrape, c *plan.Class) {
	st := c.Counts.Stats()
	s.Send(classRequests, float64(st.Requests), c.Name)
	s.SendOutcomes(classOutcomes, st.Stats, c.Name)
	s.Send(classWasted, float64(st.Wasted), c.Name)
	s.With(c.Counts.Exemplars()).SendHistogram(classWait, inflight.WaitBounds[:], st.Waits[:], st.Waited, c.Name)
	decided := func(decision, reason string, count uint64) {
		s.Send(classDecisions, float64(count), c.Name, decision, reason)
	}
	decided("admit", "", st.Admitted)
	decided("cancel", "", st.Cancelled)
	decided("deny", "rule", st.Denied)
	for _, why := range []string{weir.OverLimit.String(), weir.QueueFull.String(), weir.Overdue.String(), weir.TooLate.String(), tally.TooLarge, tally.Pressure} {
		decided("reject", why, st.Refused[why])
	}
	for _, why := range []string{weir.OverLimit.String(), tally.TooLarge, tally.Pressure} {
		decided("would_reject", why, st.WouldRefuse[why])
	}
	if c.Cache == nil {
		return
	}
	r := reportCache(c.Cache.Stats())
	for result, count := range map[string]uint64{"hit": r.Hits, "stale": r.Stale, "filled": r.Filled, "coalesced": r.Coalesced,
		"failed": r.Failed, "passed": r.Passed, "rejected": r.Rejected} {
		s.Send(cacheRequests, float64(count), c.Name, result)
	}
	s.Send(cacheBytes, float64(r.Bytes), c.Name)
}
