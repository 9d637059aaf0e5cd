// Package servermetric exports what a server.Server decides to Prometheus, by rule:
//
//   - weir_server_…: rate decisions, waits, memory;
//   - weir_server_lease_…: leases;
//   - weir_server_leaf_…: processes that decide by themselves, and their assignments;
//   - weir_store_…, weir_upstream_…, weir_peer_…: the store, the upstream, and the members of the fleet;
//   - weir_link_…: the connections of peers and leaves to this instance.
//
// Requests that no rule matches have an empty rule. Rules beyond the first 200 are
// counted together, as rule "others".
package servermetric

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// New returns a prometheus.Collector for a Server. It is safe for concurrent use.
func New(s *server.Server) prometheus.Collector {
	return metric.NewCollector(prometheus.Labels{"name": "serve"}, slices.Collect(maps.Keys(families)),
		func(c metric.Scrape) { collect(c, s) })
}

var (
	serverDecisions = metric.Counter("weir_server_decisions_total", "Requests for tokens by decision and reason.", "rule", "decision", "reason")
	serverTrial     = metric.Counter("weir_server_candidate_decisions_total", "Requests by the decision of the rule's candidate.", "rule", "decision")
	serverWaiting   = metric.Gauge("weir_server_waiting", "Requests that wait for tokens.", "rule")
	serverWait      = metric.Histogram("weir_server_wait_seconds", "Time in the queue of requests that were granted tokens.", "rule")
	serverMemory    = metric.Gauge("weir_server_memory_bytes", "Memory in use for counts.", "rule")
	serverMemoryMax = metric.Gauge("weir_server_memory_limit_bytes", "Bound on the memory for counts.", "rule")
	serverForgotten = metric.Counter("weir_server_forgotten_total", "Counts forgotten too early because memory was full.", "rule")
	serverReloads   = metric.Counter("weir_server_reloads_total", "Times that rules were loaded, the first time included.")
	serverRules     = metric.Gauge("weir_server_rules", "Rules in force.")
	grantLife       = metric.Gauge("weir_server_grant_life_seconds", "How long a grant can be settled: an hour, or less if there are more grants than are remembered.")

	serverLeases         = metric.Gauge("weir_server_leases", "Leases held, of all rules.")
	serverLeasesRefused  = metric.Counter("weir_server_leases_refused_total", "Requests for leases that were refused because --max-leases are held.")
	serverWaitingAll     = metric.Gauge("weir_server_waiting_requests", "Requests that wait for tokens or leases, of all rules.")
	serverWaitingRefused = metric.Counter("weir_server_waiting_refused_total", "Requests that were refused because --max-waiting requests wait.")

	leafCount       = metric.Gauge("weir_server_leaf_leaves", "Leaves: processes that decide by themselves, with assignments of this server.")
	leafAssignments = metric.Gauge("weir_server_leaf_assignments", "Assignments of keys, of all leaves.")
	leafBuckets     = metric.Gauge("weir_server_leaf_buckets", "Buckets whose rates leaves share.")
	leafExchanges   = metric.Counter("weir_server_leaf_exchanges_total", "Exchanges of leaves.")
	leafReports     = metric.Counter("weir_server_leaf_reports_total", "Reports about keys in exchanges of leaves.")
	leafRefused     = metric.Counter("weir_server_leaf_refused_total", "Reports that got no assignment, because there are too many or the report is not valid, and exchanges beyond the bound on leaves; with tenant=yes, of leaves with a token for some keys.", "tenant")

	leaseDecisions = metric.Counter("weir_server_lease_decisions_total", "Requests for leases by decision and reason.", "rule", "decision", "reason")
	leaseRenewals  = metric.Counter("weir_server_lease_renewals_total", "Renewals of leases.", "rule")
	leaseEnds      = metric.Counter("weir_server_lease_ends_total", "Ended leases by reason: returned or expired.", "rule", "reason")
	leaseUnits     = metric.Gauge("weir_server_lease_units", "Leased units.", "rule")
	leaseWait      = metric.Histogram("weir_server_lease_wait_seconds", "Time in the queue of requests that were granted a lease.", "rule")
	leaseWaiting   = metric.Gauge("weir_server_lease_waiting", "Requests that wait for leases.", "rule")
	leaseKeys      = metric.Gauge("weir_server_lease_keys", "Keys with a limit in use.", "rule")
	leaseRecovery  = metric.Gauge("weir_server_lease_recovery_seconds", "Time until all rules grant leases again after a crash; else 0.")
)

// families maps each family to the number of its labels.
var families = map[*metric.Family]int{
	serverDecisions: 3, serverTrial: 2, serverWaiting: 1, serverWait: 1, serverMemory: 1, serverMemoryMax: 1, serverForgotten: 1, serverReloads: 0, serverRules: 0, grantLife: 0,
	serverLeases: 0, serverLeasesRefused: 0, serverWaitingAll: 0, serverWaitingRefused: 0, leaseWait: 1,
	leafCount: 0, leafAssignments: 0, leafBuckets: 0, leafExchanges: 0, leafReports: 0, leafRefused: 1,
	leaseDecisions: 3, leaseRenewals: 1, leaseEnds: 2, leaseUnits: 1, leaseWaiting: 1, leaseKeys: 1, leaseRecovery: 0,
}

// maxRules bounds the rules with metrics of their own: a file may have a hundred
// thousand. The other rules are counted together, as rule "others".
const maxRules = 200

// A sum holds the value of each list of labels.
type sum map[*metric.Family]map[[3]string]float64

func (s sum) add(f *metric.Family, v float64, labels ...string) {
	if s[f] == nil {
		s[f] = map[[3]string]float64{}
	}
	var key [3]string
	copy(key[:], labels)
	s[f][key] += v
}

// collect sends what the server has decided so far.
func collect(c metric.Scrape, s *server.Server) {
	st := s.Stats()
	c.Send(serverReloads, float64(st.Reloads))
	c.Send(serverRules, float64(len(st.Rules)))
	c.Send(grantLife, st.GrantLife.Seconds())
	c.Send(leaseRecovery, s.Recovers().Seconds())
	c.Send(serverLeases, float64(st.Leases))
	c.Send(serverLeasesRefused, float64(st.LeasesRefused))
	c.Send(serverWaitingAll, float64(st.Waiting))
	c.Send(serverWaitingRefused, float64(st.WaitingRefused))
	c.Send(leafCount, float64(st.Leaves.Leaves))
	c.Send(leafAssignments, float64(st.Leaves.Assignments))
	c.Send(leafBuckets, float64(st.Leaves.Buckets))
	c.Send(leafExchanges, float64(st.Leaves.Exchanges))
	c.Send(leafReports, float64(st.Leaves.Reports))
	c.Send(leafRefused, float64(st.Leaves.Refused-st.Leaves.TenantRefused), "no")
	c.Send(leafRefused, float64(st.Leaves.TenantRefused), "yes")
	total, waits, leaseWaits := sum{}, map[string]waiting.Times{}, map[string]waiting.Times{}
	total.add(serverDecisions, float64(st.UnmatchedAllowed), "", "allow", "")
	total.add(serverDecisions, float64(st.UnmatchedDenied), "", "deny", "unmatched")
	total.add(serverDecisions, float64(st.UnmatchedOverOwn), "", "deny", weir.OverRate.String())
	total.add(serverMemory, float64(st.OwnMemory), "")
	total.add(serverMemoryMax, float64(st.OwnMemoryMax), "")
	total.add(serverForgotten, float64(st.OwnForgotten), "")
	for i := range st.Rules {
		r := &st.Rules[i]
		name := "others"
		if i < maxRules {
			name = r.Rule.Name
		}
		if r.Rule.Rated() {
			total.rate(name, r)
			waits[name] = together(waits[name], r.Waits)
		}
		if r.Rule.Concurrency != nil {
			total.leases(name, r)
			leaseWaits[name] = together(leaseWaits[name], r.Leases.Waits)
		}
	}
	for f, values := range total {
		for labels, v := range values {
			c.Send(f, v, labels[:families[f]]...)
		}
	}
	for name, h := range waits {
		c.SendHistogram(serverWait, waiting.Bounds[:], h.Counts[:], h.Sum, name)
	}
	for name, h := range leaseWaits {
		c.SendHistogram(leaseWait, waiting.Bounds[:], h.Counts[:], h.Sum, name)
	}
}

// rate adds the counts of a rate limit.
func (s sum) rate(name string, r *server.RuleStats) {
	s.add(serverDecisions, float64(r.Allowed), name, "allow", "")
	s.add(serverDecisions, float64(r.Cancelled), name, "cancel", "")
	for why, n := range r.Denied {
		s.add(serverDecisions, float64(n), name, "deny", why.String())
	}
	if r.Rule.Mode == "shadow" {
		s.add(serverDecisions, float64(r.Shadowed), name, "shadow_deny", "")
	}
	if r.Rule.Candidate != nil {
		s.add(serverTrial, float64(r.TrialAllowed), name, "allow")
		s.add(serverTrial, float64(r.TrialDenied), name, "deny")
	}
	s.add(serverWaiting, float64(r.Waiting), name)
	s.add(serverMemory, float64(r.Memory), name)
	s.add(serverMemoryMax, float64(r.MemoryMax), name)
	s.add(serverForgotten, float64(r.Forgotten), name)
}

// leases adds the counts of a concurrency limit.
func (s sum) leases(name string, r *server.RuleStats) {
	l := &r.Leases
	s.add(leaseDecisions, float64(l.Granted), name, "allow", "")
	for why, n := range l.Refused {
		s.add(leaseDecisions, float64(n), name, "deny", why.String())
	}
	s.add(leaseDecisions, float64(l.Cancelled), name, "cancel", "")
	if r.Rule.Mode == "shadow" {
		s.add(leaseDecisions, float64(l.Shadowed), name, "shadow_deny", "")
	}
	s.add(leaseRenewals, float64(l.Renewed), name)
	s.add(leaseEnds, float64(l.Returned), name, "returned")
	s.add(leaseEnds, float64(l.Expired), name, "expired")
	s.add(leaseUnits, float64(l.Held), name)
	s.add(leaseWaiting, float64(l.Waiting), name)
	s.add(leaseKeys, float64(l.Keys), name)
}

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

func together(a, b waiting.Times) waiting.Times {
	for i, n := range b.Counts {
		a.Counts[i] += n
	}
	a.Sum += b.Sum
	return a
}

// sendSteps sends decisions by step, but for those of a step that the source never has.
func sendSteps(c metric.Scrape, f *metric.Family, decisions *[decider.StepsCount]uint64, without ...decider.Step) {
	for step, n := range decisions {
		if s := decider.Step(step); !slices.Contains(without, s) {
			c.Send(f, float64(n), s.String())
		}
	}
}
