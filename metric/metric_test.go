package metric_test

import (
	"bytes"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/throttle"
)

var update = flag.Bool("update", false, "write the golden file")

var (
	aLimiter = inflight.Stats{State: inflight.State{Limit: 10, Inflight: 9, Held: 2, Waiting: 3}, Admitted: 100, Cancelled: 15, Abandoned: 5, Wasted: 12,
		Waited: 2500 * time.Millisecond, Waits: [14]uint64{0: 90, 4: 7, 8: 3}, Patience: 1500 * time.Millisecond, Changes: map[limit.Cause]uint64{limit.Grown: 4, limit.Queue: 3},
		Rejected: map[weir.Reason]uint64{weir.OverLimit: 11, weir.QueueFull: 13, weir.Overdue: 13, weir.TooLate: 14, weir.Closed: 18},
		Outcomes: map[weir.Outcome]uint64{weir.Success: 80, weir.Dropped: 7, weir.Ignored: 6}}
	aThrottle = throttle.Stats{P: 0.25, Requests: 40, Accepts: 30, Sent: 35, Throttled: 5}
	aBudget   = throttle.RetryStats{Requests: 100, Retries: 6, Allowed: 10, Retried: 60, Exhausted: 4}
	aKeyed    = keyed.Stats{Denied: 1, Forgotten: 2, Waiting: 3, Memory: 4096, Own: 5}
	aCache    = cache.Stats{Lookups: lookups(5), Fills: 6, Rejected: 7, Errors: 8, Evicted: 9, TooLarge: 10, Entries: 11, Bytes: 12}
	aHTTP     = httpcache.Stats{Stats: cache.Stats{Lookups: lookups(7), Evicted: 8, Entries: 9, Bytes: 10}, Passed: 5, Rejected: 6}
	aClient   = measure.Client{Waiting: 1, Sent: 20, Waited: 2, Rejected: 4, Throttled: 5, Limited: 6, Cancelled: 1,
		Outcomes: map[weir.Outcome]uint64{weir.Success: 17, outcome.TimedOut: 1}, Throttle: &aThrottle, Budget: &aBudget, Limiter: &aLimiter}
	aPressure  = pressure.Stats{Pressure: 0.5, Shed: 0.25, Rejected: map[weir.Priority]uint64{weir.Sheddable: 3, weir.Critical: 1}, Err: errors.New("gone")}
	aTransport = httpclient.Stats{Hosts: 1, Waiting: 2, Requests: 3, Sent: 4, Retried: 5, Exhausted: 6,
		Refused: map[string]uint64{"paced": 8, "throttled": 9, "limited": 10}, Evicted: 11, Shared: 12,
		Waits: [14]uint64{0: 1, 3: 4, 13: 2}, Waited: 90 * time.Second}
)

func lookups(failed uint64) map[cache.Status]uint64 {
	return map[cache.Status]uint64{cache.Hit: 1, cache.Stale: 2, cache.Filled: 3, cache.Coalesced: 4, cache.Failed: failed}
}

// aMiddleware returns Stats with every counter set, and classes that need quotes.
func aMiddleware() httplimit.Stats {
	st := httplimit.Stats{Exempt: 8, LongLived: 4, LongFull: 2}
	st.Rules = slices.Grow(st.Rules, 1)[:1]
	rule := &st.Rules[0]
	rule.Name, rule.Allowed, rule.Denied, rule.Shadowed, rule.Failed = "per-client", 50, 5, 2, 1
	st.Classes = slices.Grow(st.Classes, 4)[:4]
	for i, name := range []string{"GET /", "\xff", `"\xff"`, "a\nb\\\""} {
		st.Classes[i].Class, st.Classes[i].Admitted = name, uint64(i)
	}
	class := &st.Classes[0]
	class.Admitted, class.Limiter = 60, &aLimiter
	class.Refused = map[weir.Reason]uint64{0: 1, weir.OverRate: 5, weir.QueueFull: 6}
	class.Shadowed = map[weir.Reason]uint64{weir.OverLimit: 4}
	class.Outcomes, class.Wasted = map[weir.Outcome]uint64{weir.Success: 50, outcome.Late: 3}, 3
	return st
}

// value returns a function that returns v.
func value[S any](v S) func() S { return func() S { return v } }

// register returns a registry of collectors.
func register(t *testing.T, collectors ...prometheus.Collector) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	for i, c := range collectors {
		if err := reg.Register(c); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	return reg
}

// scrape returns what Prometheus gets.
func scrape(t *testing.T, reg *prometheus.Registry) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	return w.Body.Bytes()
}

// All collectors together, byte for byte: two of a type differ by name.
func TestGolden(t *testing.T) {
	reg := register(t,
		metric.HTTP("door", aMiddleware), metric.HTTP("other", value(httplimit.Stats{})), metric.Limiter("gate", value(aLimiter)),
		metric.Keyed("keyed", value(aKeyed)), metric.Throttle("throttle", value(aThrottle)), metric.Retries("budget", value(aBudget)),
		metric.Cache("cache", value(aCache)), metric.HTTPCache("httpcache", value(aHTTP)),
		metric.Transport("transport", value(aTransport)), metric.GRPCClient("client", value(aClient)),
		metric.Pressure("cpu", value(aPressure)), metric.GRPCClient("bare-client", value(measure.Client{})),
	)
	got := scrape(t, reg)
	if problems, err := promlint.New(bytes.NewReader(got)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	const golden = "testdata/metrics.prom"
	if *update {
		testrig.Must(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	testrig.Must(t, err)
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

// Every constructor reads its source, before and after use.
func TestConstructors(t *testing.T) {
	lim, err := inflight.New(inflight.Config{})
	testrig.Must(t, err)
	perKey, err := keyed.New[string](gcra.Per(1, time.Hour, 1), keyed.Config{})
	testrig.Must(t, err)
	m, err := httplimit.New(httplimit.Config{Limiter: lim, Rules: []httplimit.Rule{httplimit.PerKey("key", perKey, httplimit.Header("X-Api-Key"))}})
	testrig.Must(t, err)
	adaptive, err := throttle.New(throttle.Config{})
	testrig.Must(t, err)
	retrier, err := throttle.NewRetrier(throttle.RetryConfig{}, nil)
	testrig.Must(t, err)
	responses, err := httpcache.New(httpcache.Config{})
	testrig.Must(t, err)
	transport, err := httpclient.New(httpclient.Config{MaxHold: -1, Retry: throttle.RetryConfig{Attempts: 1}})
	testrig.Must(t, err)
	values, err := cache.New(cache.Config[string, int]{Entries: 1, TTL: time.Hour})
	testrig.Must(t, err)
	reg := register(t,
		metric.NewHTTP("http", m), metric.NewLimiter("inflight", lim), metric.NewKeyed("keyed", perKey),
		metric.NewThrottle("throttle", adaptive), metric.NewRetries("retries", retrier),
		metric.NewCache("values", values), metric.NewHTTPCache("responses", responses), metric.NewTransport("transport", transport),
	)
	scrape(t, reg)
	server := httptest.NewServer(m.Handler(http.NotFoundHandler()))
	defer server.Close()
	for range 2 {
		resp, err := (&http.Client{Transport: transport}).Get(server.URL + "/x")
		testrig.Must(t, err)
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
		`weir_client_refused_total{name="transport",reason="paced"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}

// Mistakes of the caller panic, and a second collector of a name is an error.
func TestMistakes(t *testing.T) {
	lim, err := inflight.New(inflight.Config{})
	testrig.Must(t, err)
	for want, mistake := range map[string]func(){
		"metric: the source is nil":              func() { metric.NewKeyed[string]("a", nil) },
		"metric: the name is empty or not UTF-8": func() { metric.NewLimiter("", lim) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("%v: want %s", got, want)
				}
			}()
			mistake()
		}()
	}
	if register(t, metric.NewLimiter("a", lim)).Register(metric.NewLimiter("a", lim)) == nil {
		t.Error("two collectors with the same name and type are registered")
	}
}

// The metrics of a limiter in front of a handler.
func ExampleNewLimiter() {
	lim, err := inflight.New(inflight.Config{})
	if err != nil {
		panic(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(metric.NewLimiter("api", lim))
	http.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	// Output:
}
