package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/proxy"
)

// Requests to a proxy that is a leaf take tokens of a key; beyond the limit they get 429, and in shadow
// mode they pass.
func TestProxyUpstream(t *testing.T) {
	s := serving(t, "--rules", file(t, "rules.yaml", `rules: [{name: origin, key: origin, rate: 5/h}]`))
	c := proxyUpstream{UpstreamURL: s.public, UpstreamKey: "origin", UpstreamAway: config.AwayDeny, UpstreamLeaves: 1}
	to, err := c.dial(func(error) {})
	fatal(t, err)
	defer to.Close()
	served, refused, shadow, decisions := 0, 0, false, newUpstreamDecisions()
	h := takeTokens(to, c.UpstreamKey, func() bool { return shadow }, decisions, func(*http.Request) { refused++ }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	var last *httptest.ResponseRecorder
	for range 20 {
		last = httptest.NewRecorder()
		h.ServeHTTP(last, httptest.NewRequest("GET", "/", nil))
	}
	if served == 0 || served > 5 || last.Code != http.StatusTooManyRequests || last.Header().Get("Retry-After") == "" || !strings.Contains(last.Body.String(), `"reason":"over_rate"`) {
		t.Errorf("%d of 20 were served, the last got %d %v %s", served, last.Code, last.Header(), last.Body)
	}
	count := func(decision string) int { return int(testutil.ToFloat64(decisions.WithLabelValues(decision))) }
	if count("allow") != served || count("deny") != 20-served || refused != 20-served {
		t.Errorf("%d of 20 were served, and %d count as allowed, %d as denied, %d as refused", served, count("allow"), count("deny"), refused)
	}
	before := served
	shadow = true
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if served != before+1 || count("would_deny") != 1 {
		t.Errorf("shadow mode: %d served, %d would be denied: want 1 and 1", served-before, count("would_deny"))
	}
	to.Close()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if served != before+2 || count("undecided") != 1 {
		t.Errorf("without a decision: %d served, %d undecided: want 2 and 1", served-before, count("undecided"))
	}
}

// The proxy has the counts among its metrics, and heeds --shadow.
func TestProxyUpstreamShadow(t *testing.T) {
	origin := echo(t)
	origin.Start()
	up := serving(t, "--rules", file(t, "rules.yaml", `rules: [{name: origin, key: origin, rate: 0/s}]`))
	s := proxying(t, "--origin", origin.URL, "--upstream", up.public, "--upstream-key", "origin", "--shadow")
	for i := range 3 {
		if a := s.get(); a.status != 200 {
			t.Errorf("request %d: %d %s", i, a.status, a.body)
		}
	}
	if metrics := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body; !strings.Contains(metrics, `weir_proxy_upstream_decisions_total{decision="would_deny"} 3`) {
		t.Errorf("metrics: %s", metrics)
	}
	s.end()
}

// While the upstream is away and has never told the limit, the limit of requests in flight is the only one.
func TestProxyUpstreamUnknown(t *testing.T) {
	origin := echo(t)
	origin.Start()
	s := proxying(t, "--origin", origin.URL, "--upstream", "http://127.0.0.1:1", "--upstream-key", "origin")
	for i := range 50 {
		if a := s.get(); a.status != 200 {
			t.Fatalf("request %d: %d %s", i, a.status, a.body)
		}
	}
	s.end()
}

// Requests that the upstream denies are among those of the status.
func TestProxyUpstreamStatus(t *testing.T) {
	origin := echo(t)
	origin.Start()
	up := serving(t, "--rules", file(t, "rules.yaml", `rules: [{name: origin, key: origin, rate: 0/s}]`))
	s := proxying(t, "--origin", origin.URL, "--upstream", up.public, "--upstream-key", "origin")
	for range 3 {
		if a := s.get(); a.status != 429 {
			t.Errorf("%d %s: want 429", a.status, a.body)
		}
	}
	var status proxy.Report
	fatal(t, json.Unmarshal([]byte(ask(t, http.DefaultClient, "GET", s.admin+"/-/status").body), &status))
	if c := status.Classes[0]; c.Requests != 3 || c.Denied != 3 {
		t.Errorf("%d requests, %d denied: want 3 of each", c.Requests, c.Denied)
	}
	s.end()
}

func TestProxyUpstreamRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"--upstream-key needs --upstream": {"--upstream-key", "a"},
		"--upstream needs --upstream-key": {"--upstream", "http://127.0.0.1:1"},
		"--upstream-token-file: open":     {"--upstream", "http://127.0.0.1:1", "--upstream-key", "a", "--upstream-token-file", "/none"},
	} {
		code, _, stderr := weir(t, append([]string{"proxy", "--origin", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, %s: want 2, %s", args, code, stderr, want)
		}
	}
}
