package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/server"
)

var (
	serverDecisions = counter("server_decisions_total", "Requests for tokens by what the rule has decided, and why.", "rule", "decision", "reason")
	serverTrial     = counter("server_candidate_decisions_total", "Requests by what the rule's candidate would have decided.", "rule", "decision")
	serverWaiting   = gauge("server_waiting", "Requests that wait for tokens.", "rule")
	serverWait      = &family{name: "weir_server_wait_seconds", help: "How long those waited who stood in line for tokens and were granted.", labels: []string{"rule"}}
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

var ofServer = []*family{serverDecisions, serverTrial, serverWaiting, serverWait, serverMemory, serverForgotten, serverReloads, serverRules,
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

// server sends what a server.Server has decided.
func (c scrape) server(st server.Stats) {
	c.count(serverReloads, st.Reloads)
	c.gauge(serverRules, len(st.Rules))
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
			c.send(f, v, labels[:len(f.labels)])
		}
	}
	for name, h := range waits {
		c.histogram(serverWait, h, name)
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

func (c scrape) histogram(f *family, h server.Waits, labels ...string) {
	buckets, n := make(map[float64]uint64, len(server.WaitBounds)), uint64(0)
	for i, bound := range server.WaitBounds {
		n += h.Counts[i]
		buckets[bound.Seconds()] = n
	}
	n += h.Counts[len(server.WaitBounds)]
	c.ch <- prometheus.MustNewConstHistogram(c.descs[f], n, h.Sum.Seconds(), buckets, labels...)
}
