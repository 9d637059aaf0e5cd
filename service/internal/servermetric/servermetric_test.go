package servermetric_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/ring"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/servermetric"
)

func quota(count int, per time.Duration) config.Quota {
	return config.Quota{Rate: config.Rate{Count: count, Period: per}}
}

// serve returns a Server of rules, complete.
func serve(t *testing.T, rules ...config.Rule) *server.Server {
	t.Helper()
	all := &config.Rules{Rules: rules}
	testrig.Must(t, all.Complete())
	s, err := server.New(server.Config{Rules: all})
	testrig.Must(t, err)
	return s
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}

// A Server's metrics are by rule, and of a rule only what it does.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trial := quota(1, time.Hour)
		s := serve(t,
			config.Rule{Name: "soon", Key: "soon", Quota: quota(1, 100*time.Millisecond), Candidate: &trial},
			config.Rule{Name: "quiet", Key: "quiet", Quota: quota(1, time.Hour), Mode: config.Shadow},
			config.Rule{Name: "jobs", Key: "job", Concurrency: &config.Concurrency{Limit: 1}},
		)
		var v decider.Verdict
		for range 2 {
			testrig.Must(t, s.Wait(t.Context(), &decider.Request{Key: "soon", N: 1}, &v))
			_ = s.Decide(context.Background(), &decider.Request{Key: "quiet", N: 1}, &v)
			_ = s.Decide(context.Background(), &decider.Request{Key: "unknown", N: 1}, &v)
			_, _ = s.Acquire(t.Context(), decider.LeaseRequest{Key: "job", N: 1})
		}
		_ = s.Decide(context.Background(), &decider.Request{Key: "soon", N: 1}, &v)

		text := scrape(t, s)
		has(t, text,
			`weir_server_decisions_total{decision="allow",name="serve",reason="",rule="soon"} 2`,
			`weir_server_decisions_total{decision="deny",name="serve",reason="over_rate",rule="soon"} 1`,
			`weir_server_candidate_decisions_total{decision="allow",name="serve",rule="soon"} 1`,
			`weir_server_wait_seconds_bucket{name="serve",rule="soon",le="0.05"} 0`,
			`weir_server_wait_seconds_bucket{name="serve",rule="soon",le="0.1"} 1`,
			`weir_server_wait_seconds_bucket{name="serve",rule="soon",le="+Inf"} 1`,
			`weir_server_wait_seconds_sum{name="serve",rule="soon"} 0.1`,
			`weir_server_decisions_total{decision="shadow_deny",name="serve",reason="",rule="quiet"} 1`,
			`weir_server_decisions_total{decision="allow",name="serve",reason="",rule=""} 2`,
			`weir_server_decisions_total{decision="deny",name="serve",reason="unmatched",rule=""} 0`,
			`weir_server_lease_decisions_total{decision="allow",name="serve",reason="",rule="jobs"} 1`,
			`weir_server_lease_decisions_total{decision="deny",name="serve",reason="over_limit",rule="jobs"} 1`,
			`weir_server_lease_units{name="serve",rule="jobs"} 1`,
			`weir_server_rules{name="serve"} 3`,
			`weir_server_reloads_total{name="serve"} 1`,
		)
		for _, never := range []string{`weir_server_waiting{name="serve",rule="jobs"}`, `weir_server_lease_units{name="serve",rule="soon"}`,
			`decision="shadow_deny",name="serve",reason="",rule="soon"`, `weir_server_candidate_decisions_total{decision="allow",name="serve",rule="quiet"}`} {
			if strings.Contains(text, never) {
				t.Errorf("there is %s, which the rule has nothing to do with", never)
			}
		}
	})
}

// The number of rules with their own metrics is bounded; a rule named "others" is
// counted with the other rules.
func TestServerOfManyRules(t *testing.T) {
	rules := []config.Rule{{Name: "others", Key: "others", Quota: quota(9, time.Hour)}}
	for i := range 250 {
		rules = append(rules, config.Rule{Name: fmt.Sprint("rule ", i), Key: fmt.Sprint(i), Quota: quota(9, time.Hour)})
	}
	s := serve(t, rules...)
	var v decider.Verdict
	for _, key := range []string{"others", "0", "198", "199", "249", "249"} {
		_ = s.Decide(context.Background(), &decider.Request{Key: key, N: 1}, &v)
	}
	text := scrape(t, s)
	has(t, text,
		`weir_server_decisions_total{decision="allow",name="serve",reason="",rule="rule 0"} 1`,
		`weir_server_decisions_total{decision="allow",name="serve",reason="",rule="rule 198"} 1`,
		`weir_server_decisions_total{decision="allow",name="serve",reason="",rule="others"} 4`,
		`weir_server_rules{name="serve"} 251`,
	)
	if strings.Contains(text, `rule="rule 199"`) {
		t.Error("rule 199 is told by itself")
	}
}

// Each other member of a fleet has its own metrics.
func TestPeers(t *testing.T) {
	st := ring.Stats{Self: "a", Quorum: true, Forwarded: 9, TookSum: 3 * time.Millisecond}
	st.Took[3], st.Decisions[decider.Share] = 3, 2
	up := peer.State{Up: true}
	st.Members = []ring.MemberStats{
		{Member: census.Member{Name: "a"}, Slots: 7, Rules: "one"},
		{Member: census.Member{Name: "b"}, Rules: "two", Lists: census.Difference{OnlyThere: []string{"x"}}, Forwarded: 9, Failed: 1, Link: &peer.Stats{State: up, Latency: 2 * time.Millisecond, Inflight: 4, Connects: 3}},
		{Member: census.Member{Name: "c"}, Rules: "one", Link: &peer.Stats{State: up}},
		{Member: census.Member{Name: "d"}, Status: census.Dead, Link: &peer.Stats{Refused: 5}},
		{Member: census.Member{Name: "e"}, Status: census.Alias, Link: &peer.Stats{State: up}},
	}
	text := read(t, servermetric.NewPeers(func() ring.Stats { return st }))
	has(t, text,
		`weir_peer_members{name="serve",status="live"} 3`,
		`weir_peer_members{name="serve",status="dead"} 1`,
		`weir_peer_quorum{name="serve"} 1`,
		`weir_peer_slots{name="serve"} 7`,
		`weir_peer_forward_seconds_bucket{name="serve",le="0.0005"} 0`,
		`weir_peer_forward_seconds_bucket{name="serve",le="0.001"} 3`,
		`weir_peer_forward_seconds_sum{name="serve"} 0.003`,
		`weir_peer_decisions_total{name="serve",step="share"} 2`,
		`weir_peer_up{name="serve",peer="b"} 1`,
		`weir_peer_up{name="serve",peer="d"} 0`,
		`weir_peer_other_rules{name="serve",peer="b"} 1`,
		`weir_peer_other_rules{name="serve",peer="c"} 0`,
		`weir_peer_other_rules{name="serve",peer="d"} 0`,
		`weir_peer_list_differs{name="serve",peer="b"} 1`,
		`weir_peer_list_differs{name="serve",peer="c"} 0`,
		`weir_peer_requests_total{name="serve",peer="b"} 9`,
		`weir_peer_request_failures_total{name="serve",peer="b"} 1`,
		`weir_peer_inflight{name="serve",peer="b"} 4`,
		`weir_peer_connects_total{name="serve",peer="b"} 3`,
		`weir_peer_handshakes_refused_total{name="serve",peer="d"} 5`,
		`weir_peer_round_trip_seconds{name="serve",peer="b"} 0.002`,
	)
	for _, never := range []string{`peer="a"`, `peer="e"`} {
		if strings.Contains(text, never) {
			t.Errorf("there are metrics with %s: this instance, and a member that is another one", never)
		}
	}
}

// scrape returns what Prometheus reads of a Server.
func scrape(t *testing.T, s *server.Server) string {
	t.Helper()
	return read(t, servermetric.New(s))
}

// read returns what Prometheus reads of a Collector.
func read(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	testrig.Must(t, registry.Register(c))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatal(w.Body)
	}
	return w.Body.String()
}
