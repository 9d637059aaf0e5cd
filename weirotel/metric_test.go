package weirotel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/throttle"
	"github.com/weir-go/weir/weirotel"
)

// same checks that the metrics of Stats have the names and values that module metric exports.
func same[S any](t *testing.T, source *measure.Source[S], stats S) {
	t.Helper()
	meter, collect := newMeter(t)
	for _, name := range []string{"a", "b"} { // two sources share instruments
		_, err := weirotel.Register(meter, name, source, stats)
		testrig.Must(t, err)
	}
	var want []string
	for _, name := range []string{"a", "b"} {
		p := prometheus{name: name}
		source.Send(&p, stats)
		want = append(want, p.lines...)
	}
	slices.Sort(want)
	if got := collect(); !slices.Equal(got, want) || len(want) < 2*len(source.Metrics) {
		t.Errorf("%T: got\n%s\nwant\n%s", stats, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNamesAndValues(t *testing.T) {
	limiter := inflight.Stats{State: inflight.State{Limit: 10, Inflight: 9, Held: 2, Waiting: 3}, Admitted: 100, Cancelled: 15, Wasted: 12,
		Waited: 2500 * time.Millisecond, Waits: [14]uint64{0: 90, 4: 7, 13: 3}, Patience: 1500 * time.Millisecond, Changes: map[limit.Cause]uint64{limit.Grown: 4},
		Rejected: map[weir.Reason]uint64{weir.OverLimit: 11, weir.QueueFull: 13}, Outcomes: map[weir.Outcome]uint64{weir.Success: 80, weir.Dropped: 7}}
	throttled := throttle.Stats{P: 0.25, Requests: 40, Accepts: 30, Sent: 35, Throttled: 5}
	budget := throttle.RetryStats{Requests: 100, Retries: 6, Allowed: 10, Retried: 60, Exhausted: 4}
	lookups := cache.Stats{Lookups: map[cache.Status]uint64{cache.Hit: 1, cache.Failed: 2}, Fills: 6, Rejected: 7, Errors: 8, Evicted: 9, TooLarge: 10, Entries: 11, Bytes: 12}
	server := admission.Stats{Exempt: 8}
	server.Rules = slices.Grow(server.Rules, 1)[:1]
	server.Rules[0].Name, server.Rules[0].Denied = "per-client", 5
	server.Classes = slices.Grow(server.Classes, 2)[:2]
	server.Classes[0].Class, server.Classes[0].Limiter = "GET /", &limiter
	server.Classes[0].Refused = map[weir.Reason]uint64{0: 1, weir.OverRate: 5}
	server.Classes[0].Shadowed = map[weir.Reason]uint64{weir.OverLimit: 4}
	server.Classes[0].Outcomes = map[weir.Outcome]uint64{weir.Success: 50}
	server.Classes[1].Class = "\xff"

	same(t, &measure.HTTP, httplimit.Stats{Exempt: server.Exempt, LongLived: 4, LongFull: 2, Rules: server.Rules, Classes: server.Classes})
	same(t, &measure.GRPC, server)
	same(t, &measure.Limiter, limiter)
	same(t, &measure.Keyed, keyed.Stats{Denied: 1, Forgotten: 2, Waiting: 3, Memory: 4096, Own: 5})
	same(t, &measure.Throttle, throttled)
	same(t, &measure.Retries, budget)
	same(t, &measure.Cache, lookups)
	same(t, &measure.HTTPCache, httpcache.Stats{Stats: lookups, Passed: 5, Rejected: 6})
	same(t, &measure.Transport, httpclient.Stats{Hosts: 1, Waiting: 2, Requests: 3, Sent: 4, Retried: 5, Refused: map[string]uint64{"paced": 8},
		Waits: [14]uint64{0: 1, 3: 4, 13: 2}, Waited: 90 * time.Second})
	same(t, &measure.Pressure, pressure.Stats{Pressure: 0.5, Shed: 0.25, Rejected: map[weir.Priority]uint64{weir.Sheddable: 3}, Err: errors.New("gone")})
	same(t, &measure.GRPCClient, measure.Client{Sent: 20, Throttle: &throttled, Budget: &budget, Limiter: &limiter})
}

// Each function reads its source, also after use, and until it is unregistered.
func TestMeasure(t *testing.T) {
	meter, collect := newMeter(t)
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
	transport, err := httpclient.New(httpclient.Config{})
	testrig.Must(t, err)
	values, err := cache.New(cache.Config[string, int]{Entries: 1, TTL: time.Hour})
	testrig.Must(t, err)
	file := filepath.Join(t.TempDir(), "cpu.pressure")
	testrig.Must(t, os.WriteFile(file, []byte("some total=0\n"), 0o600))
	guard, err := pressure.New(pressure.Config{Max: 0.4, Path: file})
	testrig.Must(t, err)
	var last metric.Registration
	add := func(r metric.Registration, err error) {
		t.Helper()
		testrig.Must(t, err)
		last = r
	}
	add(weirotel.MeasureHTTP(meter, "http", m))
	add(weirotel.MeasureKeyed(meter, "keyed", perKey))
	add(weirotel.MeasureThrottle(meter, "throttle", adaptive))
	add(weirotel.MeasureRetries(meter, "retries", retrier))
	add(weirotel.MeasureCache(meter, "values", values))
	add(weirotel.MeasureHTTPCache(meter, "responses", responses))
	add(weirotel.MeasureTransport(meter, "transport", transport))
	add(weirotel.MeasurePressure(meter, "cpu", guard))
	add(weirotel.MeasureLimiter(meter, "inflight", lim))
	for range 2 {
		w := httptest.NewRecorder()
		m.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/x", nil))
	}
	got := collect()
	for _, want := range []string{
		`weir_decisions_total{class="",decision="reject",name="http",reason="over_rate"} 1`,
		`weir_rule_decisions_total{decision="deny",name="http",rule="key"} 1`,
		`weir_keyed_denied_total{name="keyed"} 1`,
		`weir_decisions_total{class="",decision="admit",name="inflight",reason=""} 1`,
		`weir_client_wait_count_total{name="transport"} 0`,
		`weir_pressure_rejected_total{name="cpu",priority="critical"} 0`,
		`weir_retry_window_allowed{name="retries"} 0`,
		`weir_cache_size_bytes{name="values"} 0`,
		`weir_cache_entries{name="responses"} 0`,
	} {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, strings.TrimSuffix(want, "0")) }) {
			t.Errorf("no %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
	testrig.Must(t, last.Unregister())
	for _, line := range collect() {
		if strings.Contains(line, `"inflight"`) {
			t.Errorf("after Unregister: %s", line)
		}
	}
}

// Mistakes of the caller panic.
func TestMistakes(t *testing.T) {
	meter, _ := newMeter(t)
	lim, err := inflight.New(inflight.Config{})
	testrig.Must(t, err)
	for want, mistake := range map[string]func(){
		"weirotel: the source is nil":              func() { _, _ = weirotel.MeasureRetries(meter, "a", nil) },
		"weirotel: the name is empty or not UTF-8": func() { _, _ = weirotel.MeasureLimiter(meter, "\xff", lim) },
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
}

// The metrics of a limiter, as an SDK collects them.
func ExampleMeasureLimiter() {
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	lim, err := inflight.New(inflight.Config{})
	if err != nil {
		panic(err)
	}
	if _, err := weirotel.MeasureLimiter(provider.Meter("example.com/api"), "database", lim); err != nil {
		panic(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "weir.limit" {
			fmt.Println(m.Name, m.Unit, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
		}
	}
	// Output: weir.limit {unit} 10
}
