package servermetric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

var (
	tierDecisions = metric.Counter("weir_upstream_decisions_total", "Decisions about limits of the upstream by step: exact (asked), assigned, or last, share and rule without the upstream.", "step")
	tierAway      = metric.Gauge("weir_upstream_away", "Whether the upstream is considered away.")
	tierLeaves    = metric.Gauge("weir_upstream_leaves", "Leaves by which limits are divided without the upstream.")
	tierKeys      = metric.Gauge("weir_upstream_keys", "Keys that this leaf knows.")
	tierAssigned  = metric.Gauge("weir_upstream_assigned_keys", "Of these, keys with an assignment.")
	tierLeases    = metric.Gauge("weir_upstream_leases", "Leases that this leaf has granted or passed on.")
	tierAsks      = metric.Counter("weir_upstream_asks_total", "Requests that the upstream was asked about, leases included.")
	tierLate      = metric.Counter("weir_upstream_late_total", "Of these, requests without an answer within --upstream-timeout.")
	tierExchanges = metric.Counter("weir_upstream_exchanges_total", "Exchanges with the upstream.")
	tierFailures  = metric.Counter("weir_upstream_exchange_failures_total", "Of these, exchanges without an answer.")
	tierOver      = metric.Counter("weir_upstream_over_total", "Decisions about keys for which this leaf has no room.")
	tierUp        = metric.Gauge("weir_upstream_up", "Whether there is a connection to the upstream. Absent if that is the store, as the round trip and refused handshakes.")
	tierRefused   = metric.Counter("weir_upstream_handshakes_refused_total", "Connections that the upstream refused because of the token, or that ended because of the version.")
	tierRoundTrip = metric.Gauge("weir_upstream_round_trip_seconds", "Time from a ping to its answer, smoothed; 0 before the first.")
	tierDropped   = metric.Counter("weir_upstream_dropped_total", "Ends of leases that could not be reported to the upstream: they expire there.")
)

// NewTier returns a prometheus.Collector for a Tier and its upstream. link may be nil. It is safe
// for concurrent use.
func NewTier(t *server.Tier, link *peer.Client) prometheus.Collector {
	all := []*metric.Family{
		tierDecisions, tierAway, tierLeaves, tierKeys, tierAssigned, tierLeases, tierAsks, tierLate, tierExchanges, tierFailures, tierOver, tierDropped,
		tierUp, tierRefused, tierRoundTrip,
	}
	return metric.NewCollector(prometheus.Labels{"name": "serve"}, all, func(c metric.Scrape) {
		st := t.TierStats()
		sendSteps(c, tierDecisions, &st.Decisions, decider.Known)
		c.Send(tierAway, flag(st.Away))
		c.Send(tierLeaves, float64(st.Leaves))
		c.Send(tierKeys, float64(st.Keys))
		c.Send(tierAssigned, float64(st.Assigned))
		c.Send(tierLeases, float64(st.Leases))
		c.Send(tierAsks, float64(st.Asks))
		c.Send(tierLate, float64(st.Late))
		c.Send(tierExchanges, float64(st.Exchanges))
		c.Send(tierFailures, float64(st.Failures))
		c.Send(tierOver, float64(st.Over))
		c.Send(tierDropped, float64(st.Dropped))
		if link != nil {
			l := link.Stats()
			c.Send(tierUp, flag(l.State.Up))
			c.Send(tierRefused, float64(l.Refused))
			c.Send(tierRoundTrip, l.Latency.Seconds())
		}
	})
}
