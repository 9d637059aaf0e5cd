package measure

import (
	"slices"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/priority"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/pressure"
)

var (
	decisions = &Metric{"weir_decisions_total", "weir.decisions", Counter, "{request}", "Requests by decision and reason.", []string{"class", "decision", "reason"}}
	rules     = &Metric{"weir_rule_decisions_total", "weir.rule_decisions", Counter, "{decision}", "Decisions of each rule.", []string{"rule", "decision"}}
	longLived = &Metric{"weir_long_lived", "weir.long_lived", Gauge, "{request}", "Requests in progress that have left their limit, such as event streams.", nil}
	longFull  = &Metric{"weir_long_lived_full_total", "weir.long_lived_full", Counter, "{request}", "Requests that held their units while they went on, because too many had left their limit.", nil}
	unrouted  = &Metric{"weir_unrouted_total", "weir.unrouted", Counter, "{request}", "Requests of the class without a name that took a route, which is not known.", nil}
	shadowed  = &Metric{"weir_shadowed_total", "weir.shadowed", Counter, "{request}", "Admitted requests that the limit would have refused, but for Shadow.", []string{"class", "reason"}}
	outcomes  = &Metric{"weir_outcomes_total", "weir.outcomes", Counter, "{request}", "Requests that have ended, by what they tell about load.", []string{"class", "outcome"}}
	wasted    = &Metric{"weir_wasted_total", "weir.wasted", Counter, "{request}", "Admitted requests that ended after their caller had left, or their deadline.", []string{"class"}}

	limit     = &Metric{"weir_limit", "weir.limit", Gauge, "{unit}", "Units that may be in flight.", []string{"class"}}
	inFlight  = &Metric{"weir_inflight", "weir.inflight", Gauge, "{unit}", "Units in flight, abandoned ones included.", []string{"class"}}
	abandoned = &Metric{"weir_abandoned", "weir.abandoned", Gauge, "{unit}", "Units of abandoned work in flight.", []string{"class"}}
	waiting   = &Metric{"weir_waiting", "weir.waiting", Gauge, "{request}", "Requests in the queue.", []string{"class"}}
	wait      = &Metric{"weir_wait_seconds", "weir.wait", Histogram, "s", "Time that admitted requests were in the queue.", []string{"class"}}
	changes   = &Metric{"weir_limit_changes_total", "weir.limit_changes", Counter, "{change}", "Changes of the limit, by cause.", []string{"class", "cause"}}
	patience  = &Metric{"weir_patience_seconds", "weir.patience", Gauge, "s", "Age of a request at which nearly all callers have left, as the limit has learnt it; 0 if it is not known.", []string{"class"}}

	keyedDenied    = &Metric{"weir_keyed_denied_total", "weir.keyed.denied", Counter, "{request}", "Denied requests for tokens.", nil}
	keyedForgotten = &Metric{"weir_keyed_forgotten_total", "weir.keyed.forgotten", Counter, "{bucket}", "Buckets in debt that were forgotten because memory was full.", nil}
	keyedWaiting   = &Metric{"weir_keyed_waiting", "weir.keyed.waiting", Gauge, "{call}", "Calls that wait for tokens.", nil}
	keyedMemory    = &Metric{"weir_keyed_memory_bytes", "weir.keyed.memory", Gauge, "By", "Memory in use for buckets.", nil}
	keyedOwn       = &Metric{"weir_keyed_own_keys", "weir.keyed.own_keys", Gauge, "{key}", "Keys with waiters or a quota of their own.", nil}
)

var (
	stateMetrics   = []*Metric{limit, inFlight, abandoned, waiting, wait, changes, patience}
	limiterMetrics = slices.Concat([]*Metric{decisions, outcomes, wasted}, stateMetrics)
	serverMetrics  = slices.Concat([]*Metric{rules, shadowed, longLived, longFull, unrouted}, limiterMetrics)
	keyedMetrics   = []*Metric{keyedDenied, keyedForgotten, keyedWaiting, keyedMemory, keyedOwn}
)

func (to sink) http(st httplimit.Stats) {
	to.server(admission.Stats{Exempt: st.Exempt, Rules: st.Rules, Classes: st.Classes})
	to.gauge(longLived, st.LongLived)
	to.count(longFull, st.LongFull)
	to.count(unrouted, st.Unrouted)
}

func (to sink) grpc(st admission.Stats) {
	to.server(st)
	to.gauge(longLived, 0)
	to.count(longFull, 0)
	to.count(unrouted, 0)
}

func (to sink) server(st admission.Stats) {
	to.count(decisions, st.Exempt, "", "exempt", "")
	for _, r := range st.Rules {
		to.count(rules, r.Allowed, r.Name, "allow")
		to.count(rules, r.Denied, r.Name, "deny")
		to.count(rules, r.Shadowed, r.Name, "shadow_deny")
		to.count(rules, r.Failed, r.Name, "fail")
	}
	for _, c := range st.Classes {
		to.count(decisions, c.Admitted, c.Class, "admit", "")
		for why, n := range c.Refused {
			if why == 0 {
				to.count(decisions, n, c.Class, "cancel", "")
			} else {
				to.count(decisions, n, c.Class, "reject", why.String())
			}
		}
		each(to, shadowed, c.Shadowed, c.Class)
		each(to, outcomes, c.Outcomes, c.Class)
		to.count(wasted, c.Wasted, c.Class)
		if c.Limiter != nil {
			to.state(*c.Limiter, c.Class)
		}
	}
}

func (to sink) limiter(st inflight.Stats) {
	to.state(st, "")
	to.count(decisions, st.Admitted, "", "admit", "")
	to.count(decisions, st.Cancelled, "", "cancel", "")
	each(to, decisions, st.Rejected, "", "reject")
	each(to, outcomes, st.Outcomes, "")
	to.count(wasted, st.Wasted, "")
}

func (to sink) state(st inflight.Stats, class string) {
	to.gauge(limit, st.Limit, class)
	to.gauge(inFlight, st.Inflight, class)
	to.gauge(abandoned, st.Held, class)
	to.gauge(waiting, st.Waiting, class)
	to.Histogram(wait, inflight.WaitBounds[:], st.Waits[:], st.Waited, class)
	each(to, changes, st.Changes, class)
	to.Value(patience, st.Patience.Seconds(), class)
}

func (to sink) keyed(st keyed.Stats) {
	to.count(keyedDenied, st.Denied)
	to.count(keyedForgotten, st.Forgotten)
	to.gauge(keyedWaiting, st.Waiting)
	to.gauge(keyedMemory, st.Memory)
	to.gauge(keyedOwn, st.Own)
}

var (
	pressureShare    = &Metric{"weir_pressure_ratio", "weir.pressure", Gauge, "1", "Share of the time in which work waited for the processor.", nil}
	pressureShed     = &Metric{"weir_pressure_shed_ratio", "weir.pressure_shed", Gauge, "1", "Part of all requests that is rejected because of the pressure.", nil}
	pressureRejected = &Metric{"weir_pressure_rejected_total", "weir.pressure_rejected", Counter, "{request}", "Requests rejected because of the pressure.", []string{"priority"}}
	pressureFailed   = &Metric{"weir_pressure_failed", "weir.pressure_failed", Gauge, "{reading}", "Whether the last reading of the pressure failed.", nil}

	pressureMetrics = []*Metric{pressureShare, pressureShed, pressureRejected, pressureFailed}
)

func (to sink) pressure(st pressure.Stats) {
	to.Value(pressureShare, st.Pressure)
	to.Value(pressureShed, st.Shed)
	for p, n := range st.Rejected {
		to.count(pressureRejected, n, priority.Name(p))
	}
	failed := 0
	if st.Err != nil {
		failed = 1
	}
	to.gauge(pressureFailed, failed)
}
