package servermetric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/ring"
	"github.com/weir-go/weir/service/internal/ring/census"
)

var (
	peerMembers    = metric.Gauge("weir_peer_members", "Members of the fleet, this instance included, as it sees them: live; cut off, but perhaps alive; dead; left, or an alias of another one.", "status")
	peerQuorum     = metric.Gauge("weir_peer_quorum", "Whether this instance sees more than half of the members. If not, it decides by its share of the limits.")
	peerSlots      = metric.Gauge("weir_peer_slots", "Slots of keys, of 65,536, that this instance owns.")
	peerForwarded  = metric.Counter("weir_peer_forwarded_total", "Requests of which another member was asked.")
	peerFailures   = metric.Counter("weir_peer_failures_total", "Of these, requests without an answer in time.")
	peerForward    = metric.Histogram("weir_peer_forward_seconds", "Duration of requests of which another member was asked, without requests that may wait.")
	peerDecisions  = metric.Counter("weir_peer_decisions_total", "Decisions by step: exact by the owner of the key, or share and rule without it.", "step")
	peerClaims     = metric.Counter("weir_peer_claims_total", "Changes of members by which keys have moved to this instance.")
	peerIncomplete = metric.Counter("weir_peer_claims_incomplete_total", "Of these, changes of which a part of the state was lost: buckets are full, and leases wait.")

	peerUp         = metric.Gauge("weir_peer_up", "Whether this instance has a connection to the member.", "peer")
	peerOtherRules = metric.Gauge("weir_peer_other_rules", "Whether the member has told that it has other rules than this instance.", "peer")
	peerLists      = metric.Gauge("weir_peer_list_differs", "Whether the member has told that it has another list of members than this instance.", "peer")
	peerRequests   = metric.Counter("weir_peer_requests_total", "Requests of which this member was asked.", "peer")
	peerFailed     = metric.Counter("weir_peer_request_failures_total", "Of these, requests without an answer in time.", "peer")
	peerInflight   = metric.Gauge("weir_peer_inflight", "Requests of all kinds to the member without an answer yet.", "peer")
	peerConnects   = metric.Counter("weir_peer_connects_total", "Connections to the member that were made.", "peer")
	peerRefused    = metric.Counter("weir_peer_handshakes_refused_total", "Connections to the member that it or this instance refused because of the secret or the version.", "peer")
	peerRoundTrip  = metric.Gauge("weir_peer_round_trip_seconds", "Time from a ping to the answer of the member, smoothed; 0 before the first.", "peer")
)

// NewPeers returns a prometheus.Collector for the Stats of a Ring. It is safe for concurrent use
// if stats is.
func NewPeers(stats func() ring.Stats) prometheus.Collector {
	all := []*metric.Family{
		peerMembers, peerQuorum, peerSlots, peerForwarded, peerFailures, peerForward, peerDecisions, peerClaims, peerIncomplete,
		peerUp, peerOtherRules, peerLists, peerRequests, peerFailed, peerInflight, peerConnects, peerRefused, peerRoundTrip,
	}
	return metric.NewCollector(prometheus.Labels{"name": "serve"}, all, func(c metric.Scrape) {
		st := stats()
		collectMembers(c, &st)
		c.Send(peerQuorum, flag(st.Quorum))
		c.Send(peerForwarded, float64(st.Forwarded))
		c.Send(peerFailures, float64(st.Failed))
		c.SendHistogram(peerForward, ring.TookBounds[:], st.Took[:], st.TookSum)
		sendSteps(c, peerDecisions, &st.Decisions)
		c.Send(peerClaims, float64(st.Claims))
		c.Send(peerIncomplete, float64(st.Incomplete))
	})
}

// collectMembers sends the number of members by status, and the metrics of each other member.
func collectMembers(c metric.Scrape, st *ring.Stats) {
	var byStatus [census.StatusCount]int
	slots, rules := 0, ""
	for i := range st.Members {
		m := &st.Members[i]
		if byStatus[m.Status]++; m.Name == st.Self {
			slots, rules = m.Slots, m.Rules
		}
	}
	for status, n := range byStatus {
		c.Send(peerMembers, float64(n), census.Status(status).String())
	}
	c.Send(peerSlots, float64(slots))
	for i := range st.Members {
		m := &st.Members[i]
		if m.Link == nil || m.Status == census.Alias {
			continue
		}
		c.Send(peerUp, flag(m.Link.State.Up), m.Name)
		c.Send(peerOtherRules, flag(m.Rules != "" && rules != "" && m.Rules != rules), m.Name)
		c.Send(peerLists, flag(!m.Lists.IsEmpty()), m.Name)
		c.Send(peerRequests, float64(m.Forwarded), m.Name)
		c.Send(peerFailed, float64(m.Failed), m.Name)
		c.Send(peerInflight, float64(m.Link.Inflight), m.Name)
		c.Send(peerConnects, float64(m.Link.Connects), m.Name)
		c.Send(peerRefused, float64(m.Link.Refused), m.Name)
		c.Send(peerRoundTrip, m.Link.Latency.Seconds(), m.Name)
	}
}
