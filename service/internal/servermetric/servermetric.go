// Package servermetric exports what a server.Server decides to Prometheus, by rule:
//
//   - weir_server_…: rate decisions, waits, memory;
//   - weir_server_lease_…: leases.
//
// Requests that no rule matches have an empty rule. Rules beyond the first 200 are
// counted together, as rule "others".
package servermetric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/service/internal/server"
)

// New returns a prometheus.Collector for a Server. It is safe for concurrent use.
func New(s *server.Server) prometheus.Collector { return collector{s} }

type collector struct{ server *server.Server }

// A family is the metrics of one name.
type family struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels int // how many
}

func newFamily(kind prometheus.ValueType, name, help string, labels []string) *family {
	return &family{prometheus.NewDesc("weir_"+name, help, labels, prometheus.Labels{"name": "serve"}), kind, len(labels)}
}

func counter(name, help string, labels ...string) *family {
	return newFamily(prometheus.CounterValue, name, help, labels)
}

func gauge(name, help string, labels ...string) *family {
	return newFamily(prometheus.GaugeValue, name, help, labels)
}

func histogram(name, help string, labels ...string) *family {
	return newFamily(prometheus.UntypedValue, name, help, labels)
}

func (f *family) send(ch chan<- prometheus.Metric, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

var (
	serverDecisions = counter("server_decisions_total", "Requests for tokens by what the rule has decided, and why.", "rule", "decision", "reason")
	serverTrial     = counter("server_candidate_decisions_total", "Requests by what the rule's candidate would have decided.", "rule", "decision")
	serverWaiting   = gauge("server_waiting", "Requests that wait for tokens.", "rule")
	serverWait      = histogram("server_wait_seconds", "How long those waited who stood in line for tokens and were granted.", "rule")
	serverMemory    = gauge("server_memory_bytes", "Memory in use for counts.", "rule")
	serverForgotten = counter("server_forgotten_total", "Counts given up too early, because memory was full.", "rule")
	serverReloads   = counter("server_reloads_total", "Rules put into force, the first included.")
	serverRules     = gauge("server_rules", "Rules in force.")

	leaseDecisions = counter("server_lease_decisions_total", "Requests for leases by what the rule has decided, and why.", "rule", "decision", "reason")
	leaseRenewals  = counter("server_lease_renewals_total", "Leases that were renewed.", "rule")
	leaseEnds      = counter("server_lease_ends_total", "Leases that have ended: returned, or expired.", "rule", "reason")
	leaseUnits     = gauge("server_lease_units", "Units that are leased.", "rule")
	leaseWaiting   = gauge("server_lease_waiting", "Requests that wait for leases.", "rule")
	leaseKeys      = gauge("server_lease_keys", "Keys with a limit in use.", "rule")
)

var families = []*family{serverDecisions, serverTrial, serverWaiting, serverWait, serverMemory, serverForgotten, serverReloads, serverRules,
	leaseDecisions, leaseRenewals, leaseEnds, leaseUnits, leaseWaiting, leaseKeys}

// maxRules bounds the rules that are told one by one: a file may have a hundred
// thousand. All others are told together, as rule "others".
const maxRules = 200

// A sum is what is told under each list of labels.
type sum map[*family]map[[3]string]float64

func (s sum) add(f *family, v float64, labels ...string) {
	if s[f] == nil {
		s[f] = map[[3]string]float64{}
	}
	var key [3]string
	copy(key[:], labels)
	s[f][key] += v
}

// Describe sends the metrics that there can be.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		ch <- f.desc
	}
}

// Collect sends what the server has decided so far.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	st := c.server.Stats()
	serverReloads.send(ch, float64(st.Reloads))
	serverRules.send(ch, float64(len(st.Rules)))
	total, waits := sum{}, map[string]server.Waits{}
	total.add(serverDecisions, float64(st.UnmatchedAllowed), "", "allow", "")
	total.add(serverDecisions, float64(st.UnmatchedDenied), "", "deny", "unmatched")
	for i := range st.Rules {
		r := &st.Rules[i]
		name := "others"
		if i < maxRules {
			name = r.Rule.Name
		}
		if r.Rule.Quoted() {
			total.rate(name, r)
			waits[name] = together(waits[name], r.Waits)
		}
		if r.Rule.Concurrency != nil {
			total.leases(name, &r.Leases)
		}
	}
	for f, values := range total {
		for labels, v := range values {
			f.send(ch, v, labels[:f.labels]...)
		}
	}
	for name, h := range waits {
		sendWaits(ch, h, name)
	}
}

// rate adds what a rule has done that has a rate.
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
	s.add(serverForgotten, float64(r.Forgotten), name)
}

// leases adds what a rule has done that has a limit.
func (s sum) leases(name string, l *server.LeaseStats) {
	s.add(leaseDecisions, float64(l.Granted), name, "allow", "")
	for why, n := range l.Refused {
		s.add(leaseDecisions, float64(n), name, "deny", why.String())
	}
	s.add(leaseRenewals, float64(l.Renewed), name)
	s.add(leaseEnds, float64(l.Returned), name, "returned")
	s.add(leaseEnds, float64(l.Expired), name, "expired")
	s.add(leaseUnits, float64(l.Held), name)
	s.add(leaseWaiting, float64(l.Waiting), name)
	s.add(leaseKeys, float64(l.Keys), name)
}

func together(a, b server.Waits) server.Waits {
	for i, n := range b.Counts {
		a.Counts[i] += n
	}
	a.Sum += b.Sum
	return a
}

func sendWaits(ch chan<- prometheus.Metric, h server.Waits, rule string) {
	buckets, n := make(map[float64]uint64, len(server.WaitBounds)), uint64(0)
	for i, bound := range server.WaitBounds {
		n += h.Counts[i]
		buckets[bound.Seconds()] = n
	}
	n += h.Counts[len(server.WaitBounds)]
	ch <- prometheus.MustNewConstHistogram(serverWait.desc, n, h.Sum.Seconds(), buckets, rule)
}
