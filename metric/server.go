package metric

import (
	"slices"

	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/keyed"
)

var (
	decisions = Counter("weir_decisions_total", "Requests by decision and reason.", "class", "decision", "reason")
	rules     = Counter("weir_rule_decisions_total", "Decisions of each rule.", "rule", "decision")
	longLived = Gauge("weir_long_lived", "Requests in progress that have left their limit, such as event streams.")
	shadowed  = Counter("weir_shadowed_total", "Admitted requests that the limit would have refused, but for Shadow.", "class", "reason")
	outcomes  = Counter("weir_outcomes_total", "Requests that have ended, by what they tell about load.", "class", "outcome")

	limit     = Gauge("weir_limit", "Units that may be in flight.", "class")
	inFlight  = Gauge("weir_inflight", "Units in flight, abandoned ones included.", "class")
	abandoned = Gauge("weir_abandoned", "Units of abandoned work in flight.", "class")
	waiting   = Gauge("weir_waiting", "Requests in the queue.", "class")
	waited    = Counter("weir_waited_seconds_total", "Sum of the times that admitted requests were in the queue.", "class")

	keyedDenied    = Counter("weir_keyed_denied_total", "Denied requests for tokens.")
	keyedForgotten = Counter("weir_keyed_forgotten_total", "Buckets in debt that were forgotten because memory was full.")
	keyedWaiting   = Gauge("weir_keyed_waiting", "Calls that wait for tokens.")
	keyedMemory    = Gauge("weir_keyed_memory_bytes", "Memory in use for buckets.")
	keyedOwn       = Gauge("weir_keyed_own_keys", "Keys with waiters or a quota of their own.")
)

var (
	stateFamilies   = []*Family{limit, inFlight, abandoned, waiting, waited}
	limiterFamilies = slices.Concat([]*Family{decisions, outcomes}, stateFamilies)
	serverFamilies  = slices.Concat([]*Family{rules, shadowed, longLived}, limiterFamilies)
	keyedFamilies   = []*Family{keyedDenied, keyedForgotten, keyedWaiting, keyedMemory, keyedOwn}
)

func (s Scrape) http(st httplimit.Stats) {
	s.server(admission.Stats{Exempt: st.Exempt, Rules: st.Rules, Classes: st.Classes})
	s.gauge(longLived, st.LongLived)
}

func (s Scrape) grpc(st grpclimit.Stats) {
	s.server(admission.Stats(st))
	s.gauge(longLived, 0)
}

func (s Scrape) server(st admission.Stats) {
	s.count(decisions, st.Exempt, "", "exempt", "")
	for _, r := range st.Rules {
		s.count(rules, r.Allowed, r.Name, "allow")
		s.count(rules, r.Denied, r.Name, "deny")
		s.count(rules, r.Shadowed, r.Name, "shadow_deny")
	}
	for _, c := range st.Classes {
		s.count(decisions, c.Admitted, c.Class, "admit", "")
		for why, n := range c.Refused {
			if why == 0 {
				s.count(decisions, n, c.Class, "cancel", "")
			} else {
				s.count(decisions, n, c.Class, "reject", why.String())
			}
		}
		sendEach(s, shadowed, c.Shadowed, c.Class)
		sendEach(s, outcomes, c.Outcomes, c.Class)
		if c.Limiter != nil {
			s.state(*c.Limiter, c.Class)
		}
	}
}

func (s Scrape) limiter(st inflight.Stats) {
	s.state(st, "")
	s.SendDecisions(decisions, st, "")
	s.SendOutcomes(outcomes, st, "")
}

func (s Scrape) state(st inflight.Stats, class string) {
	s.gauge(limit, st.Limit, class)
	s.gauge(inFlight, st.Inflight, class)
	s.gauge(abandoned, st.Held, class)
	s.gauge(waiting, st.Waiting, class)
	s.Send(waited, st.Waited.Seconds(), class)
}

func (s Scrape) keyed(st keyed.Stats) {
	s.count(keyedDenied, st.Denied)
	s.count(keyedForgotten, st.Forgotten)
	s.gauge(keyedWaiting, st.Waiting)
	s.gauge(keyedMemory, st.Memory)
	s.gauge(keyedOwn, st.Own)
}
