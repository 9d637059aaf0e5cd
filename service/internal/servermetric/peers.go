package servermetric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/ring"
	"github.com/weir-go/weir/service/internal/server/decider"
)

var (
	peerMembers    = metric.Gauge("weir_peer_members", "Members of the fleet, this instance included, as it sees them: live; cut off, but perhaps alive; dead; left, or an alias of another one.", "status")
	peerQuorum     = metric.Gauge("weir_peer_quorum", "Whether this instance sees more than half of the members. If not, it decides by its share of the limits.")
	peerSlots      = metric.Gauge("weir_peer_slots", "Slots of keys, of 65,536, that this instance owns.")
	peerForwarded  = metric.Counter("weir_peer_forwarded_total", "Requests of which another member was asked.")
	peerFailures   = metric.Counter("weir_peer_failures_total", "Of these, requests without an answer in time.")
	peerDecisions  = metric.Counter("weir_peer_decisions_total", "Decisions by step: exact by the owner of the key, or share and rule without it.", "step")
	peerClaims     = metric.Counter("weir_peer_claims_total", "Changes of members by which keys have moved to this instance.")
	peerIncomplete = metric.Counter("weir_peer_claims_incomplete_total", "Of these, changes of which a part of the state was lost: buckets are full, and leases wait.")
)

// NewPeers returns a prometheus.Collector for a Ring. It is safe for concurrent use.
func NewPeers(r *ring.Ring) prometheus.Collector {
	all := []*metric.Family{peerMembers, peerQuorum, peerSlots, peerForwarded, peerFailures, peerDecisions, peerClaims, peerIncomplete}
	return metric.NewCollector(prometheus.Labels{"name": "serve"}, all, func(c metric.Scrape) {
		st := r.Stats()
		var byStatus [ring.StatusCount]int
		slots := 0
		for i := range st.Members {
			m := &st.Members[i]
			if byStatus[m.Status]++; m.Name == st.Self {
				slots = m.Slots
			}
		}
		for status, n := range byStatus {
			c.Send(peerMembers, float64(n), ring.Status(status).String())
		}
		quorum := 0.0
		if st.Quorum {
			quorum = 1
		}
		c.Send(peerQuorum, quorum)
		c.Send(peerSlots, float64(slots))
		c.Send(peerForwarded, float64(st.Forwarded))
		c.Send(peerFailures, float64(st.Failed))
		for step, n := range st.Decisions {
			c.Send(peerDecisions, float64(n), decider.Step(step).String())
		}
		c.Send(peerClaims, float64(st.Claims))
		c.Send(peerIncomplete, float64(st.Incomplete))
	})
}
