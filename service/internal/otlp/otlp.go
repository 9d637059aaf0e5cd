// Package otlp exports the metrics and traces of a process over OTLP, as the environment variables of OpenTelemetry say. Without
// an endpoint in them, it does nothing.
//
//	export, err := otlp.Start(ctx, otlp.Config{Name: "weir-serve", Log: log})
//	...
//	defer export.Close()
//	export.Gather(registry)
//	handler = export.Handler(handler)
//	server := grpc.NewServer(export.ServerOptions("weir.v1.WeirService", weirapi.Allowed)...)
//
// The SDK reads the variables of samplers, batches, headers, certificates and resources. Requests carry the context of
// a trace as the W3C has it (traceparent, tracestate).
package otlp

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir/service/internal/logqueue"
)

// Config configures an Exporter.
type Config struct {
	Name string // of the service, unless OTEL_SERVICE_NAME is set
	Log  *slog.Logger
}

// An Exporter exports metrics and traces. It is safe for concurrent use. A nil Exporter does nothing.
type Exporter struct {
	log      *slog.Logger
	metrics  *sdkmetric.MeterProvider // nil if metrics are not exported
	traces   *sdktrace.TracerProvider // nil if traces are not exported
	tracer   trace.Tracer             // of traces
	gatherer atomic.Pointer[prometheus.Gatherer]
}

// exported reports whether the environment says that a signal, METRICS or TRACES, is exported.
func exported(signal string) (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") == "" {
		return false, nil
	}
	switch name := os.Getenv("OTEL_" + signal + "_EXPORTER"); name {
	case "", "otlp":
	case "none":
		return false, nil
	default:
		return false, fmt.Errorf("otlp: OTEL_%s_EXPORTER = %s: must be otlp or none", signal, name)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p == "http/protobuf" {
			break
		} else if p != "" {
			return false, fmt.Errorf("otlp: %s = %s: must be http/protobuf, which receivers have at port 4318", name, p)
		}
	}
	return true, nil
}

// Start starts an export; the Exporter is nil if the environment names no endpoint.
func Start(ctx context.Context, cfg Config) (*Exporter, error) {
	metrics, err := exported("METRICS")
	traces, err2 := exported("TRACES")
	if err := errors.Join(err, err2); err != nil || !metrics && !traces {
		return nil, err
	}
	failures := logqueue.NewLatest(cfg.Log) // under load, many a second
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { failures.Log(slog.LevelWarn, "OTLP", "error", err) }))
	version := "(devel)"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(build.Main.Version, version)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", cfg.Name), attribute.String("service.version", version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("otlp: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	e := &Exporter{log: cfg.Log}
	if metrics {
		to, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("otlp: metrics: %w", err)
		}
		all := bridge.NewMetricProducer(bridge.WithGatherer(prometheus.GathererFunc(e.gather)))
		e.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(to, sdkmetric.WithProducer(all))))
	}
	if traces {
		to, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("otlp: traces: %w", err)
		}
		e.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(to))
		e.tracer = e.traces.Tracer("github.com/weir-go/weir")
	}
	cfg.Log.Info("OTLP", "metrics", metrics, "traces", traces)
	return e, nil
}

// Gather exports the metrics of a Gatherer from now on.
func (e *Exporter) Gather(g prometheus.Gatherer) {
	if e != nil {
		e.gatherer.Store(&g)
	}
}

func (e *Exporter) gather() ([]*dto.MetricFamily, error) {
	g := e.gatherer.Load()
	if g == nil {
		return nil, nil
	}
	families, err := (*g).Gather()
	for _, f := range families {
		for _, m := range f.Metric {
			for _, b := range m.Histogram.GetBucket() {
				b.Exemplar = binary(b.Exemplar)
			}
		}
	}
	return families, err
}

// binary returns an exemplar with the bytes of the IDs in its labels, which the bridge exports as they are: OTLP has no digits there.
func binary(x *dto.Exemplar) *dto.Exemplar {
	if x == nil {
		return nil
	}
	y := &dto.Exemplar{Value: x.Value, Timestamp: x.Timestamp}
	for _, l := range x.Label {
		if id, err := hex.DecodeString(l.GetValue()); err == nil {
			text := string(id)
			y.Label = append(y.Label, &dto.LabelPair{Name: l.Name, Value: &text})
		}
	}
	return y
}

// closeTime bounds the last export.
const closeTime = 5 * time.Second

// Close exports what is left, and ends the export.
func (e *Exporter) Close() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	var ends sync.WaitGroup // at once: neither uses up the time of the other
	var tracesErr, metricsErr error
	if e.traces != nil {
		ends.Go(func() { tracesErr = e.traces.Shutdown(ctx) })
	}
	if e.metrics != nil {
		ends.Go(func() { metricsErr = e.metrics.Shutdown(ctx) })
	}
	ends.Wait()
	if err := errors.Join(tracesErr, metricsErr); err != nil {
		e.log.Warn("OTLP: the last export", "error", err)
	}
}

// Traces reports whether traces are exported.
func (e *Exporter) Traces() bool { return e != nil && e.traces != nil }

var propagator propagation.TraceContext

// start starts the span of a request to a server. The route is empty if it is not known.
func (e *Exporter) start(r *http.Request, route string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	name := r.Method
	if route != "" {
		name += " " + route
		opts = append(opts, trace.WithAttributes(attribute.String("http.route", route)))
	}
	opts = append(opts, trace.WithAttributes(attribute.String("http.request.method", r.Method)))
	return e.startFor(r.Context(), r.Header, name, opts...)
}

// startFor starts the span of a caller, whose header has the parent.
func (e *Exporter) startFor(ctx context.Context, header http.Header, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	return e.tracer.Start(propagator.Extract(ctx, propagation.HeaderCarrier(header)), name, append(opts, trace.WithSpanKind(trace.SpanKindServer))...)
}

// end ends the span of a request.
func end(span trace.Span, status int, opts ...trace.SpanEndOption) {
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End(opts...)
}

// Answered records the span of a request that was answered with a status. It returns the ID of the trace, or "" if that is not
// sampled. It must only be called if Traces.
func (e *Exporter) Answered(r *http.Request, route string, status int, came time.Time) string {
	ctx, span := e.start(r, route, trace.WithTimestamp(came))
	end(span, status)
	return traceID(ctx)
}

func traceID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// Handler returns next with a span for each request, which the request that next gets has as its parent. If there are no
// traces, it returns next.
func (e *Exporter) Handler(next http.Handler) http.Handler {
	if !e.Traces() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := e.start(r, "")
		propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
		out := &writer{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			if reason := w.Header().Get("Weir-Reason"); reason != "" {
				span.SetAttributes(attribute.String("weir.reason", reason))
			}
			end(span, out.status)
		}()
		next.ServeHTTP(out, r)
	})
}

// TraceID returns the ID of the trace of a request that has come through Handler, or "" if that is not sampled.
func TraceID(r *http.Request) string {
	return traceID(propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
}

// A writer keeps the status of an answer.
type writer struct {
	http.ResponseWriter
	status int
}

func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
