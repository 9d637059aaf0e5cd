//go:build !race

package main

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// scraped returns the metrics of a server after every kind of event.
func scraped(t *testing.T) string {
	t.Helper()
	s := serving(t, "--rules", file(t, "rules.yaml", `rules:
- {name: tried, key: tried, rate: 1/h, candidate: {rate: 2/h}}
- {name: jobs, key: job, concurrency: {limit: 1}}
- {name: late, key: late, rate: 1/h, max_wait: 9h}
- {name: edge, entries: {user: "*"}, rate: 1/h}
`), "--record-decisions", t.TempDir(), "--resp-listen", "127.0.0.1:0", "--max-connections", "1000", "--state", filepath.Join(t.TempDir(), "state"), "--tokens", file(t, "tokens.yaml", `tokens: [{name: shop, token: secret-of-the-shop}]`))
	s.statuses("/rate/tried", 1) // without a token
	s.token = "secret-of-the-shop"
	s.statuses("/rate/tried", 2)
	s.statuses("/lease/job", 2)
	granted := s.post("/rate/late")
	waiter := s.wait("/rate/late?canWait=true", 1)
	s.giveBack(http.DefaultClient, "/rate/late", granted)
	<-waiter
	req, err := http.NewRequest("POST", s.public+"/json", strings.NewReader(`{"domain": "edge", "descriptors": [{"entries": [{"key": "user"}]}]}`))
	fatal(t, err)
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	fatal(t, err)
	resp.Body.Close()
	nc, err := net.Dial("tcp", s.resp())
	c := respOver(t, nc, err)
	c.send("PING")
	c.wants("-NOAUTH Authentication required.")
	text := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body
	s.end()
	return text
}

// scrapedStore returns the metrics of a server with a store that is away.
func scrapedStore(t *testing.T) string {
	t.Helper()
	s := serving(t, "--rules", file(t, "rules.yaml", "rules: [{key: a, rate: 9/h}]"), "--store", "redis://127.0.0.1:1", "--store-timeout", "70ms")
	s.statuses("/rate/a", 2)
	text := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body
	s.end()
	return text
}

// scrapedPeers returns the metrics of a server that does not reach its only peer.
func scrapedPeers(t *testing.T) string {
	t.Helper()
	address := "127.0.0.1:" + redistest.FreePort(t)
	s := serving(t, "--rules", file(t, "rules.yaml", "rules: [{key: a, rate: 9/h}]"), "--listen", address, "--peers", nowhere+",http://"+address)
	s.until(`status=cut`)
	redistest.Until(t, "this instance among its peers", func() error {
		if text := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body; !strings.Contains(text, `weir_peer_members{name="serve",status="live"} 1`) {
			return errors.New("not found")
		}
		return nil
	})
	s.statuses("/rate/a", 2)
	text := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body
	s.end()
	return text
}

// scrapedLeaf returns the metrics of a leaf without its upstream.
func scrapedLeaf(t *testing.T) string {
	t.Helper()
	s := serving(t, "--rules", file(t, "rules.yaml", "rules: [{key: a, rate: 9/h}]"), "--upstream", nowhere)
	s.statuses("/rate/a", 4)
	s.until("the upstream does not answer")
	text := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body
	s.end()
	return text
}

// scrapedProxy returns the metrics of a proxy.
func scrapedProxy(t *testing.T) (text string) {
	t.Helper()
	tokens := file(t, "tokens.yaml", operatorTokens)
	s := proxying(t, "--origin", nowhere, "--origin", "http://127.0.0.1:2", "--rules", file(t, "proxy.yaml", "rules: [{name: a, rate: 1/h}]\nclasses: [{name: c, routes: /c, limit: auto, cache: {ttl: 1s}}]"), "--admin-tokens", tokens, "--recordings", t.TempDir())
	s.get()
	text = ask(t, http.DefaultClient, "GET", s.admin+"/metrics", "Authorization", "Bearer secret-of-the-operator").body
	s.end()
	clitest.LintMetrics(t, text)
	return text
}

func TestFleetMetrics(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{scrapedPeers(t), []string{
			`weir_peer_quorum{name="serve"} 0`,
			`weir_peer_members{name="serve",status="cut"} 1`,
			`weir_peer_members{name="serve",status="live"} 1`,
			`weir_peer_up{name="serve",peer="` + nowhere + `"} 0`,
			`weir_peer_other_rules{name="serve",peer="` + nowhere + `"} 0`,
			`weir_peer_decisions_total{name="serve",step="share"} 2`,
			`weir_link_connections{from="peers",name="serve"} 0`,
			`weir_link_connections{from="leaves",name="serve"} 0`,
		}},
		{scrapedLeaf(t), []string{
			`weir_upstream_away{name="serve"} 1`,
			`weir_upstream_up{name="serve"} 0`,
			`weir_upstream_decisions_total{name="serve",step="share"} 4`,
			`weir_upstream_handshakes_refused_total{name="serve"} 0`,
		}},
	} {
		clitest.LintMetrics(t, tt.text)
		for _, want := range tt.want {
			if !strings.Contains(tt.text, "\n"+want+"\n") {
				t.Errorf("no %s in\n%s", want, tt.text)
			}
		}
	}
}

func TestStoreMetrics(t *testing.T) {
	text := scrapedStore(t)
	clitest.LintMetrics(t, text)
	for _, want := range []string{
		`weir_store_decisions_total{name="serve",step="share"} 2`,
		`weir_store_decisions_total{name="serve",step="exact"} 0`,
		`weir_store_instances{name="serve"} 1`,
		`weir_store_timeout_seconds{name="serve"} 0.07`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestMetrics(t *testing.T) {
	text := scraped(t)
	clitest.LintMetrics(t, text)
	for _, want := range []string{
		`weir_server_decisions_total{decision="allow",name="serve",reason="",rule="tried"} 1`,
		`weir_server_decisions_total{decision="deny",name="serve",reason="over_rate",rule="tried"} 1`,
		`weir_server_candidate_decisions_total{decision="allow",name="serve",rule="tried"} 2`,
		`weir_server_lease_decisions_total{decision="allow",name="serve",reason="",rule="jobs"} 1`,
		`weir_server_lease_decisions_total{decision="deny",name="serve",reason="over_limit",rule="jobs"} 1`,
		`weir_server_lease_units{name="serve",rule="jobs"} 1`,
		`weir_server_wait_seconds_count{name="serve",rule="late"} 1`,
		`weir_serve_requests_total{code="429",method="POST",route="/rate/{key}"} 1`,
		`weir_serve_requests_total{code="200",method="POST",route="/lease/{key}"} 1`,
		`weir_rls_answers_total{code="OK"} 1`, `weir_rls_within_limit_total{rule="edge"} 1`, `weir_rlqs_streams 0`,
		`weir_resp_commands_total{command="ping",result="error"} 1`,
		`weir_config_last_reload_successful 1`,
		`weir_config_reload_failures_total 0`,
		`weir_serve_draining 0`,
		`weir_log_lines_lost_total 0`,
		`weir_serve_token_requests_total{token=""} 2`,
		`weir_serve_token_requests_total{token="shop"} 8`,
		`weir_serve_bound{of="connections"} 1000`,
		`weir_serve_bound{of="waiting"} 20000`,
		`weir_serve_bound{of="leases"} 100000`,
		`weir_serve_bound{of="memory"} 6.7108864e+07`,
		`weir_server_leases{name="serve"} 1`,
		`weir_server_waiting_requests{name="serve"} 0`,
		`weir_server_leases_refused_total{name="serve"} 0`,
		`weir_server_waiting_refused_total{name="serve"} 0`,
		`weir_server_lease_wait_seconds_count{name="serve",rule="jobs"} 0`,
		`weir_server_lease_decisions_total{decision="cancel",name="serve",reason="",rule="jobs"} 0`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// Each alert has a section in the runbook, two tests, and metrics that exist.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/prometheus/alerts.yaml")
	fatal(t, err)
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	fatal(t, yaml.Unmarshal(text, &alerts))
	tests, err := os.ReadFile("../../../deploy/prometheus/alerts_test.yaml")
	fatal(t, err)
	runbook, err := os.ReadFile("../../../docs/runbook.md")
	fatal(t, err)
	rules := append(alerts.Groups[0].Rules, alerts.Groups[1].Rules...)
	if n := strings.Count(string(runbook), "\n## "); n != len(rules) {
		t.Errorf("the runbook has %d sections for %d alerts", n, len(rules))
	}
	var exprs []string
	for _, r := range rules {
		exprs = append(exprs, r.Expr)
		if want := "https://github.com/weir-go/weir/blob/main/docs/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q: want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		_, section, _ := strings.Cut(string(runbook), "\n## "+r.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"**Means:**", "**Look at:**", "**Do:**"} {
			if !strings.Contains(section, part) {
				t.Errorf("%s: the runbook does not say what it means, what to look at, and what to do", r.Alert)
			}
		}
		if n := strings.Count(string(tests), "alertname: "+r.Alert); n != 2 {
			t.Errorf("%s has %d tests: want one in which it fires, and one in which it does not", r.Alert, n)
		}
	}
	metricsExist(t, exprs)
}

// Every panel of the dashboards has queries of existing metrics.
func TestDashboard(t *testing.T) {
	var all []string
	for _, name := range dashboards {
		queries, variables := dashboard(t, name)
		if len(queries) < 15 {
			t.Errorf("%s: %d queries: it was not read", name, len(queries))
		}
		all = append(append(all, queries...), variables...)
	}
	metricsExist(t, all)
}

// metricsExist checks that every metric in the expressions exists.
func metricsExist(t *testing.T, exprs []string) {
	t.Helper()
	text := "\n" + scraped(t) + scrapedStore(t) + scrapedPeers(t) + scrapedLeaf(t) + scrapedProxy(t) + deployed(t, "../metric/testdata/metrics.prom") // of the library
	for _, expr := range exprs {
		for _, name := range regexp.MustCompile(`\b(weir|process|go)_[a-z0-9_]+`).FindAllString(expr, -1) {
			if !strings.Contains(text, "\n"+name+"{") && !strings.Contains(text, "\n"+name+" ") {
				t.Errorf("%s: there is no %s", expr, name)
			}
		}
	}
}

// The command lines in the files of deploy, and the rules, are valid.
func TestDeployments(t *testing.T) {
	for name, args := range commandLines(t) {
		if err := program.Accepts(args); err != nil || args[0] != "serve" || len(args) < 5 {
			t.Errorf("%s: weir %s: %v", name, strings.Join(args, " "), err)
		}
	}
	for _, source := range regexp.MustCompile(`(?m)^ +- (\./[^:]+):`).FindAllStringSubmatch(deployed(t, "compose.yaml"), -1) {
		if _, err := os.Stat(filepath.Join("../../../deploy", source[1])); err != nil {
			t.Errorf("compose.yaml: %v", err)
		}
	}
	if code, _, stderr := weir(t, "check", "../../../deploy/rules"); code != 0 {
		t.Error(stderr)
	}
}

// commandLines returns the command lines that start weir, by file.
func commandLines(t *testing.T) map[string][]string {
	t.Helper()
	last := func(name, pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(deployed(t, name))
		if m == nil {
			t.Fatalf("%s: no %s", name, pattern)
		}
		return m[1]
	}
	var image []string
	fatal(t, json.Unmarshal([]byte(last("Dockerfile", `(?m)^CMD (.*)$`)), &image))
	list := func(name, pattern string) (args []string) {
		fatal(t, yaml.Unmarshal([]byte(last(name, pattern)), &args))
		return args
	}
	return map[string][]string{
		"Dockerfile":          image,
		"compose.yaml":        list("compose.yaml", `command:\n((?: +- .*\n)+)`),
		"compose-redis.yaml":  list("compose-redis.yaml", `command:\n((?: +- .*\n)+)`),
		"compose-valkey.yaml": list("compose-valkey.yaml", `command:\n((?: +- .*\n)+)`),
		"weir.yaml":           list("kubernetes/weir.yaml", `args:\n((?: +- .*\n)+)`),
		"store.yaml":          list("kubernetes/store.yaml", `args:\n((?: +- .*\n)+)`),
		"peers.yaml":          list("kubernetes/peers.yaml", `args:\n((?: +- .*\n)+)`),
		"leaf.yaml":           list("kubernetes/leaf.yaml", `args:\n((?: +- .*\n)+)`),
	}
}
