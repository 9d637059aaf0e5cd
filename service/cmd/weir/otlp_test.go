package main

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
)

// An otlpReceiver takes what is exported to it.
type otlpReceiver struct {
	*httptest.Server
	mu               sync.Mutex // guards what follows
	service, version string
	spans            []*tracepb.Span
	metrics          map[string]*metrics.Metric
}

func receiveOTLP(t *testing.T) *otlpReceiver {
	to := &otlpReceiver{metrics: map[string]*metrics.Metric{}}
	to.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		to.mu.Lock()
		defer to.mu.Unlock()
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		text, err := io.ReadAll(body)
		fatal(t, err)
		switch r.URL.Path {
		case "/v1/traces":
			var m collectortrace.ExportTraceServiceRequest
			fatal(t, proto.Unmarshal(text, &m))
			for _, of := range m.ResourceSpans {
				to.service, to.version = attribute(of.Resource.Attributes, "service.name"), attribute(of.Resource.Attributes, "service.version")
				for _, scope := range of.ScopeSpans {
					to.spans = append(to.spans, scope.Spans...)
				}
			}
		case "/v1/metrics":
			var m collectormetrics.ExportMetricsServiceRequest
			fatal(t, proto.Unmarshal(text, &m))
			for _, of := range m.ResourceMetrics {
				for _, scope := range of.ScopeMetrics {
					for _, one := range scope.Metrics {
						to.metrics[one.Name] = one
					}
				}
			}
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(to.Close)
	return to
}

// attribute returns an attribute as a text.
func attribute(all []*common.KeyValue, name string) string {
	for _, a := range all {
		if a.Key == name {
			if n := a.Value.GetIntValue(); n != 0 {
				return strconv.FormatInt(n, 10)
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	callerID = "b7ad6b7169203331"
)

// traced sends a request with the context of a trace, and returns the status.
func traced(t *testing.T, method, url, flags string) int {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	fatal(t, err)
	r.Header.Set("traceparent", "00-"+traceID+"-"+callerID+"-"+flags)
	answer, err := http.DefaultClient.Do(r)
	fatal(t, err)
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	fatal(t, err)
	return answer.StatusCode
}

// weir serve exports its metrics, and a span for each request of a trace that is sampled.
func TestServeOTLP(t *testing.T) {
	to := receiveOTLP(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	t.Setenv("OTEL_SERVICE_NAME", "limits")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	s := serving(t, "--rules", file(t, "rules.yaml", `rules: [{name: one, glob: "*", rate: 1/h}]`))
	for i, want := range []int{200, 429, 429} {
		if got := traced(t, "POST", s.public+"/rate/a", []string{"01", "01", "00"}[i]); got != want {
			t.Errorf("request %d: %d: want %d", i, got, want)
		}
	}
	s.post("/rate/b")
	s.end()
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.service != "limits" {
		t.Errorf("the service is %q", to.service)
	}
	var statuses []string
	for _, span := range to.spans {
		statuses = append(statuses, attribute(span.Attributes, "http.response.status_code"))
		if span.Name != "POST /rate/{key}" || hex.EncodeToString(span.TraceId) != traceID || hex.EncodeToString(span.ParentSpanId) != callerID || span.EndTimeUnixNano < span.StartTimeUnixNano {
			t.Errorf("%v", span)
		}
	}
	if got := strings.Join(statuses, " "); got != "200 429" {
		t.Errorf("spans with the statuses %q: want those that are sampled", got)
	}
	asked := to.metrics["weir_serve_requests_total"]
	if sum := asked.GetSum(); !sum.GetIsMonotonic() || len(sum.GetDataPoints()) != 2 {
		t.Errorf("%v", asked)
	}
}

// sent returns the spans of the caller's trace in a line each: the name, what the answer was, and whether it is an error.
func (to *otlpReceiver) sent(t *testing.T) (all []string) {
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, span := range to.spans {
		line := span.Name
		for _, name := range []string{"http.response.status_code", "rpc.system.name", "rpc.response.status_code", "weir.decision"} {
			if value := attribute(span.Attributes, name); value != "" {
				line += " " + value
			}
		}
		if span.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			line += " error"
		}
		if method := attribute(span.Attributes, "rpc.method"); method != "" && method != span.Name {
			t.Errorf("%s has the method %s", span.Name, method)
		}
		if hex.EncodeToString(span.TraceId) != traceID || hex.EncodeToString(span.ParentSpanId) != callerID ||
			span.Kind != tracepb.Span_SPAN_KIND_SERVER || span.EndTimeUnixNano < span.StartTimeUnixNano {
			t.Errorf("%v", span)
		}
		all = append(all, line)
	}
	return all
}

// Calls over gRPC have spans, through each listener and each server of HTTP/2, and so have requests over HTTP/2.
func TestServeOTLPOverHTTP2(t *testing.T) {
	const limits = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit grpc "
	for _, transport := range []string{"std", "inline"} {
		t.Run(transport, func(t *testing.T) {
			to := receiveOTLP(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
			t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
			_, rules := writeRuntime(t, "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")
			s := serving(t, "--transport", transport, "--grpc-listen", "127.0.0.1:0", "--rules", rules)
			with := func(flags string) context.Context {
				return metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-"+callerID+"-"+flags)
			}
			traces := with("01")
			for _, address := range []string{strings.TrimPrefix(s.public, "http://"), s.grpcAddress()} {
				l := newLimiter(t, address)
				for range 2 {
					_, err := l.ask(traces, address)
					fatal(t, err)
				}
				_, _ = rls.NewRateLimitServiceClient(l.conn).ShouldRateLimit(traces, &rls.RateLimitRequest{})
				for _, ctx := range []context.Context{with("00"), t.Context()} { // not sampled
					_, err := l.ask(ctx, "another")
					fatal(t, err)
				}
				_, err := healthpb.NewHealthClient(l.conn).Check(traces, &healthpb.HealthCheckRequest{})
				fatal(t, err)
				fatal(t, l.conn.Close()) // so that the server has nothing to wait for
			}
			r, err := http.NewRequest(http.MethodPost, s.public+"/rate/a", nil)
			fatal(t, err)
			r.Header.Set("traceparent", "00-"+traceID+"-"+callerID+"-01")
			h2 := &http.Transport{Protocols: new(http.Protocols)}
			h2.Protocols.SetUnencryptedHTTP2(true)
			answer, err := h2.RoundTrip(r)
			fatal(t, err)
			answer.Body.Close()
			h2.CloseIdleConnections()
			s.end()
			want := []string{limits + "OK admit", limits + "OK reject", limits + "UNKNOWN error"}
			want = append(append(want, want...), "POST /rate/{key} 200")
			if got := to.sent(t); !slices.Equal(got, want) {
				t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// Calls of weir.v1 have spans, also calls that wait, with their last decision.
func TestWeirOTLP(t *testing.T) {
	to := receiveOTLP(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	s := serving(t, "--grpc-listen", "127.0.0.1:0", "--rules", file(t, "rules.yaml", `rules:
- {name: jobs, glob: "job", concurrency: {limit: 1, ttl: 10s}}
- {name: soon, glob: "soon", rate: 100/s, burst: 1, queue: 5}
- {name: one, glob: "*", rate: 1/h}
`))
	c := weirv1.NewWeirServiceClient(newLimiter(t, s.grpcAddress()).conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-"+callerID+"-01")
	for range 2 {
		_, err := c.Decide(ctx, &weirv1.DecideRequest{Key: "a"})
		fatal(t, err)
	}
	_, err := c.Batch(ctx, &weirv1.BatchRequest{Requests: []*weirv1.BatchItem{{Key: "a"}, {Key: "b"}}})
	fatal(t, err)
	for _, key := range []string{"soon", "soon", "a"} {
		answers, err := c.Wait(ctx, &weirv1.WaitRequest{Key: key, TimeoutMs: new(int64(10_000))})
		fatal(t, err)
		for err == nil {
			_, err = answers.Recv()
		}
	}
	for range 2 {
		_, err := c.AcquireLease(ctx, &weirv1.AcquireLeaseRequest{Key: "job"})
		fatal(t, err)
	}
	_, _ = c.Settle(ctx, &weirv1.SettleRequest{Key: "a", RequestId: "none"})
	s.end()
	want := []string{
		"Decide grpc OK admit", "Decide grpc OK reject", "Batch grpc OK reject", "Wait grpc OK admit", "Wait grpc OK admit", "Wait grpc OK reject",
		"AcquireLease grpc OK admit", "AcquireLease grpc OK reject", "Settle grpc NOT_FOUND",
	}
	for i := range want {
		want[i] = "weir.v1.WeirService/" + want[i]
	}
	if got := to.sent(t); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// weir proxy exports its metrics, and a span for each request. The origin gets the span as the parent.
func TestProxyOTLP(t *testing.T) {
	to := receiveOTLP(t)
	var mu sync.Mutex
	var parents []string
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		parents = append(parents, r.Header.Get("traceparent"))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer origin.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	s := proxying(t, "--origin", origin.URL)
	if got := traced(t, "GET", s.public+"/orders", "01"); got != http.StatusServiceUnavailable {
		t.Errorf("%d", got)
	}
	s.end()
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.spans) != 1 || to.service != "weir-proxy" || to.version != "(devel)" {
		t.Fatalf("%q, version %q: %v: want one span", to.service, to.version, to.spans)
	}
	span := to.spans[0]
	if span.Name != "GET" || span.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || hex.EncodeToString(span.ParentSpanId) != callerID {
		t.Errorf("%v", span)
	}
	if want := "00-" + traceID + "-" + hex.EncodeToString(span.SpanId) + "-01"; len(parents) != 1 || parents[0] != want {
		t.Errorf("the origin gets %q: want %s", parents, want)
	}
	if to.metrics["weir_proxy_requests_total"] == nil && len(to.metrics) < 20 {
		t.Errorf("%d metrics", len(to.metrics))
	}
}

// A scrape in the format OpenMetrics has a trace in a bucket of each histogram that the request is in, if it is sampled. Without
// traces, there is no such format.
func TestExemplars(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer origin.Close()
	const openMetrics = "application/openmetrics-text; version=1.0.0"
	rules := file(t, "rules.yaml", `rules: [{name: one, glob: "*", rate: 1/h}]`)
	for name, start := range map[string]func() *served{
		"proxy": func() *served { return proxying(t, "--origin", origin.URL) },
		"serve": func() *served { return serving(t, "--rules", rules) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start()
			traced(t, "POST", s.public+"/rate/a", "01")
			if text := ask(t, http.DefaultClient, "GET", s.admin+"/metrics", "Accept", openMetrics); strings.Contains(text.body, "trace_id") || strings.Contains(text.header.Get("Content-Type"), "openmetrics") {
				t.Errorf("%v: want plain text", text)
			}
			s.end()
			to := receiveOTLP(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
			t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
			s = start()
			metrics := func(accept string) string {
				return ask(t, http.DefaultClient, "GET", s.admin+"/metrics", "Accept", accept).body
			}
			traced(t, "POST", s.public+"/rate/a", "00")
			if text := metrics(openMetrics); strings.Contains(text, "trace_id") || !strings.HasSuffix(text, "# EOF\n") {
				t.Errorf("%s\nwant OpenMetrics without an exemplar", text)
			}
			for range 64 { // weir serve measures one of them
				traced(t, "POST", s.public+"/rate/a", "01")
			}
			if text := metrics("text/plain"); strings.Contains(text, "trace_id") {
				t.Errorf("%s\nwant no exemplar in plain text", text)
			}
			text := metrics(openMetrics)
			for _, want := range map[string][]string{
				"proxy": {"weir_proxy_wait_seconds", "weir_proxy_class_wait_seconds", "weir_proxy_origin_duration_seconds"},
				"serve": {"weir_serve_decision_seconds"},
			}[name] {
				if !regexp.MustCompile(`(?m)^` + want + `_bucket\{.*\} \d+ # \{trace_id="` + traceID + `"\} \S+ \S+$`).MatchString(text) {
					t.Errorf("%s\nwant an exemplar of %s", text, want)
				}
			}
			s.end()
			to.mu.Lock()
			defer to.mu.Unlock()
			if name == "proxy" {
				if e := to.metrics["weir_proxy_wait_seconds"].GetHistogram().GetDataPoints()[0].Exemplars; len(e) != 1 || hex.EncodeToString(e[0].TraceId) != traceID {
					t.Errorf("exemplars over OTLP: %v", e)
				}
			}
		})
	}
}

// Variables with which nothing could be exported are errors.
func TestOTLPRefused(t *testing.T) {
	for name, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL": "OTEL_EXPORTER_OTLP_PROTOCOL = other: must be http/protobuf",
		"OTEL_TRACES_EXPORTER":        "OTEL_TRACES_EXPORTER = other: must be otlp or none",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, "other")
			var said strings.Builder
			if code := program.Run(t.Context(), serveArgs(nil), io.Discard, &said); code == 0 || !strings.Contains(said.String(), want) {
				t.Errorf("%d: %s: want %s", code, &said, want)
			}
		})
	}
}
