package metric_test

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/throttle"
)

var update = flag.Bool("update", false, "write the golden file")

// fake is a source that says what it is told to.
type fake[S any] struct{ stats S }

func (f fake[S]) Stats() S { return f.stats }

var (
	aGate = gate.Stats{Limit: 10, Closed: 18, Inflight: 9, Held: 2, Waiting: 3, Admitted: 100, Waited: 2500 * time.Millisecond, OverLimit: 11, QueueFull: 12, Overdue: 13,
		TooLate: 14, Evicted: 1, Cancelled: 15, Success: 80, Dropped: 7, Ignored: 6, Abandoned: 5}
	aDoor = admission.Stats{
		Rules: []admission.RuleStats{{Name: "per-client", Allowed: 50, Denied: 5, Shadowed: 2}},
		Classes: []admission.ClassStats{
			{Class: "GET /", Admitted: 60, Gate: &aGate,
				Refused:  map[weir.Reason]uint64{0: 1, weir.OverRate: 5, weir.QueueFull: 6},
				Shadowed: map[weir.Reason]uint64{weir.OverLimit: 4},
				Outcomes: map[weir.Outcome]uint64{weir.Success: 50, outcome.Late: 3}},
			{Class: "\xff", Admitted: 1}, {Class: `"\xff"`, Admitted: 2}, {Class: "a\nb\\\"", Admitted: 3},
		},
		Exempt: 8, LongLived: 4,
	}
	aThrottle = throttle.Stats{P: 0.25, Requests: 40, Accepts: 30, Sent: 35, Throttled: 5}
	aBudget   = throttle.RetryStats{Requests: 100, Retries: 6, Allowed: 10, Retried: 60, Exhausted: 4}
	aKeyed    = keyed.Stats{Denied: 1, Forgotten: 2, Waiting: 3, Memory: 4096, Own: 5}
	aCache    = cache.Stats{Hits: 1, Stale: 2, Filled: 3, Coalesced: 4, Failed: 5, Fills: 6, Rejected: 7, Errors: 8, Evicted: 9, TooLarge: 10, Entries: 11, Bytes: 12}
	aHTTP     = httpcache.Stats{Hits: 1, Stale: 2, Filled: 3, Coalesced: 4, Passed: 5, Rejected: 6, Failed: 7, Evicted: 8, Entries: 9, Bytes: 10}
	aClient   = outgoing.Stats{Waiting: 1, Sent: 20, Waited: 2, Rejected: 4, Throttled: 5, Limited: 6, Cancelled: 1,
		Outcomes: map[weir.Outcome]uint64{weir.Success: 17, outcome.TimedOut: 1}, Throttle: &aThrottle, Budget: &aBudget, Gate: &aGate}
	aTransport = httpclient.Stats{Hosts: 1, Waiting: 2, Requests: 3, Sent: 4, Retried: 5, Exhausted: 6, Paced: 7, Rejected: 8,
		Throttled: 9, Limited: 10, Evicted: 11, Shared: 12,
		Waits: httpclient.WaitHistogram{Counts: [14]uint64{0: 1, 3: 4, 13: 2}, Sum: 90 * time.Second, Max: 40 * time.Second}}
)

// register returns a registry of sources by name.
func register(t *testing.T, sources map[string]any) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	for name, source := range sources {
		c, err := metric.New(name, source)
		fatal(t, err)
		if err := reg.Register(c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return reg
}

// scrape is what Prometheus gets.
func scrape(t *testing.T, reg *prometheus.Registry) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	return w.Body.Bytes()
}

// All sources together, to the byte: two of a kind differ by name.
func TestGolden(t *testing.T) {
	reg := register(t, map[string]any{
		"door": fake[admission.Stats]{aDoor}, "other": fake[admission.Stats]{}, "gate": fake[gate.Stats]{aGate},
		"keyed": fake[keyed.Stats]{aKeyed}, "throttle": fake[throttle.Stats]{aThrottle}, "budget": fake[throttle.RetryStats]{aBudget},
		"cache": fake[cache.Stats]{aCache}, "httpcache": fake[httpcache.Stats]{aHTTP},
		"transport": fake[httpclient.Stats]{aTransport}, "client": fake[outgoing.Stats]{aClient},
		"bare-client": fake[outgoing.Stats]{},
	})
	got := scrape(t, reg)
	if problems, err := promlint.New(bytes.NewReader(got)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	const golden = "testdata/metrics.prom"
	if *update {
		fatal(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	fatal(t, err)
	if !bytes.Equal(got, want) {
		lines := strings.Split(string(want), "\n")
		for i, line := range strings.Split(string(got), "\n") {
			if i >= len(lines) || line != lines[i] {
				t.Fatalf("line %d: %s", i+1, line)
			}
		}
		t.Fatal("lines are missing")
	}
}

// The real things are sources: each can be read before and after it was used.
func TestSources(t *testing.T) {
	lim, err := inflight.New(inflight.Config{})
	fatal(t, err)
	perKey, err := keyed.New[string](gcra.Per(1, time.Hour, 1), keyed.Config{})
	fatal(t, err)
	m, err := httplimit.New(httplimit.Config{Limiter: lim, Rules: []httplimit.Rule{httplimit.PerKey("key", perKey, httplimit.APIKey())}})
	fatal(t, err)
	i, err := grpclimit.New(grpclimit.Config{})
	fatal(t, err)
	client, err := grpclimit.NewClient(grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 2}, Limiter: lim})
	fatal(t, err)
	adaptive, err := throttle.New(throttle.Config{})
	fatal(t, err)
	retrier, err := throttle.NewRetrier(throttle.RetryConfig{}, nil)
	fatal(t, err)
	responses, err := httpcache.New(httpcache.Config{})
	fatal(t, err)
	transport, err := httpclient.New(httpclient.Config{MaxHold: -1, Retry: throttle.RetryConfig{Attempts: 1}})
	fatal(t, err)
	reg := register(t, map[string]any{
		"http": m, "grpc": i, "inflight": lim, "keyed": perKey, "client": client, "throttler": adaptive, "retrier": retrier,
		"responses": responses, "transport": transport,
	})
	scrape(t, reg)
	server := httptest.NewServer(m.Handler(http.NotFoundHandler()))
	defer server.Close()
	for range 2 {
		resp, err := (&http.Client{Transport: transport}).Get(server.URL + "/x")
		fatal(t, err)
		_ = resp.Body.Close()
	}
	text := string(scrape(t, reg))
	for _, line := range []string{
		`weir_decisions_total{class="",decision="admit",name="http",reason=""} 1`,
		`weir_decisions_total{class="",decision="reject",name="http",reason="over_rate"} 1`,
		`weir_rule_decisions_total{decision="deny",name="http",rule="key"} 1`,
		`weir_outcomes_total{class="",name="http",outcome="ignored"} 1`,
		`weir_decisions_total{class="",decision="admit",name="inflight",reason=""} 1`,
		`weir_keyed_denied_total{name="keyed"} 1`,
		`weir_client_sent_total{name="transport"} 2`,
		`weir_throttle_refusal_ratio{name="client"} 0`,
		`weir_client_refused_total{name="client",reason="cancel"} 0`,
		`weir_client_refused_total{name="client",reason="paced"} 0`,
		`weir_client_refused_total{name="transport",reason="paced"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNew(t *testing.T) {
	for _, tt := range []struct {
		name   string
		source any
		want   string
	}{
		{"a", nil, "metric: a: nothing is known of a <nil>: its Stats are none of this module's"},
		{"a", rate.NewLimiter(1, 1), "metric: a: nothing is known of a *rate.Limiter: its Stats are none of this module's"},
		{"a", (*grpclimit.Client)(nil), "metric: a: the source is a nil *grpclimit.Client"},
		{"", fake[gate.Stats]{}, `metric: name = "": must be text, and not empty`},
		{"\xff", fake[gate.Stats]{}, `metric: name = "\xff": must be text, and not empty`},
	} {
		if c, err := metric.New(tt.name, tt.source); err == nil || err.Error() != tt.want || c != nil {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	reg := register(t, map[string]any{"a": fake[gate.Stats]{}})
	again, err := metric.New("a", fake[gate.Stats]{})
	fatal(t, err)
	if reg.Register(again) == nil {
		t.Error("two of the same name and kind are registered")
	}
}

// The metrics of a limiter in front of a handler.
func ExampleNew() {
	lim, err := inflight.New(inflight.Config{})
	if err != nil {
		panic(err)
	}
	c, err := metric.New("api", lim)
	if err != nil {
		panic(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	http.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	// Output:
}
