// Package weirotel exports limiters, throttles and caches to OpenTelemetry: their metrics, and
// their decisions in traces. It needs the API of OpenTelemetry, and no particular SDK.
//
// # Metrics
//
// There is a function for each type. A callback reads the Stats of its source when the SDK
// collects, and costs nothing between collections:
//
//	m, err := httplimit.New(httplimit.Config{PerClass: httplimit.Auto})
//	...
//	_, err = weirotel.MeasureHTTP(otel.Meter("example.com/api"), "api", m)
//
// The name becomes the attribute weir.name of every metric. The other attributes are bounded by
// the source, and a key is never one of them:
//
//   - weir.decisions{weir.class, weir.decision, weir.reason}, weir.rule_decisions{weir.rule,
//     weir.decision}, weir.shadowed{weir.class, weir.reason}, weir.outcomes{weir.class,
//     weir.outcome}
//   - weir.limit, weir.inflight, weir.abandoned, weir.waiting, weir.waited (seconds, summed
//     up){weir.class}; weir.long_lived
//   - weir.keyed.…, weir.throttle.…, weir.retries, weir.retries_exhausted, weir.retry.…,
//     weir.cache.…{weir.status}, weir.client.…{weir.reason}; weir.pressure,
//     weir.pressure_shed, weir.pressure_rejected{weir.priority}, weir.pressure_failed
//
// They mean what those of module metric mean, which documents them, and Prometheus shows them
// under the same names, with two exceptions: weir.cache.size is weir_cache_bytes there.
// weir.client.wait.time and weir.client.wait.count are its histogram weir_client_wait_seconds,
// because OpenTelemetry has no histograms that a callback reads.
//
// SDKs keep 2,000 sets of attributes of each metric by default. An httplimit.Middleware with
// more than 200 classes needs more: see the option WithCardinalityLimit of the SDK.
//
// # Traces
//
// Handler, UnaryServer, StreamServer, UnaryClient, StreamClient and Transport add the decision
// about a request to the current span, which an instrumentation such as otelhttp has started
// around them:
//
//	http.ListenAndServe(addr, otelhttp.NewHandler(weirotel.Handler(m, mux), "api"))
//
// The span gets weir.decision ("admit", "reject", or "cancel" if the caller left) and, if they
// are known, weir.reason, weir.rule and weir.retry_after (in seconds). A wait of a millisecond
// or more is a span "weir.wait" inside it. Limiter does the same for any weir.Limiter, such as
// those of packages inflight, rate and client. It adds an event "weir.decision" with these
// attributes and weir.limiter, because a span can ask several limiters.
//
// A span that is not recorded costs a look at the context.
package weirotel

import (
	"context"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/throttle"
)

// MeasureHTTP registers the metrics of a Middleware until the Registration is unregistered. Like
// every such function of this package, it panics if the source is nil, or if the name is empty
// or not UTF-8. An error is one of the meter.
func MeasureHTTP(meter metric.Meter, name string, m *httplimit.Middleware) (metric.Registration, error) {
	return register(meter, name, &measure.HTTP, need(m).Stats)
}

// MeasureGRPC registers the metrics of an Interceptor.
func MeasureGRPC(meter metric.Meter, name string, i *grpclimit.Interceptor) (metric.Registration, error) {
	need(i)
	return register(meter, name, &measure.GRPC, func() admission.Stats { return admission.Stats(i.Stats()) })
}

// MeasureLimiter registers the metrics of a concurrency limit.
func MeasureLimiter(meter metric.Meter, name string, l *inflight.Limiter) (metric.Registration, error) {
	return register(meter, name, &measure.Limiter, need(l).Stats)
}

// MeasureKeyed registers the metrics of a rate limit per key.
func MeasureKeyed[K comparable](meter metric.Meter, name string, l *keyed.Limiter[K]) (metric.Registration, error) {
	return register(meter, name, &measure.Keyed, need(l).Stats)
}

// MeasureThrottle registers the metrics of an adaptive throttle.
func MeasureThrottle(meter metric.Meter, name string, l *throttle.Limiter) (metric.Registration, error) {
	return register(meter, name, &measure.Throttle, need(l).Stats)
}

// MeasureRetries registers the metrics of a retry budget.
func MeasureRetries(meter metric.Meter, name string, r *throttle.Retrier) (metric.Registration, error) {
	return register(meter, name, &measure.Retries, need(r).Stats)
}

// MeasureCache registers the metrics of a cache.
func MeasureCache[K comparable, V any](meter metric.Meter, name string, c *cache.Cache[K, V]) (metric.Registration, error) {
	return register(meter, name, &measure.Cache, need(c).Stats)
}

// MeasureHTTPCache registers the metrics of a cache of responses.
func MeasureHTTPCache(meter metric.Meter, name string, c *httpcache.Cache) (metric.Registration, error) {
	return register(meter, name, &measure.HTTPCache, need(c).Stats)
}

// MeasurePressure registers the metrics of a Guard.
func MeasurePressure(meter metric.Meter, name string, g *pressure.Guard) (metric.Registration, error) {
	return register(meter, name, &measure.Pressure, need(g).Stats)
}

// MeasureTransport registers the metrics of an HTTP client.
func MeasureTransport(meter metric.Meter, name string, t *httpclient.Transport) (metric.Registration, error) {
	return register(meter, name, &measure.Transport, need(t).Stats)
}

// MeasureGRPCClient registers the metrics of a gRPC client.
func MeasureGRPCClient(meter metric.Meter, name string, c *grpclimit.Client) (metric.Registration, error) {
	need(c)
	return register(meter, name, &measure.GRPCClient, func() measure.Client { return measure.Client(c.Stats()) })
}

func need[T any](source *T) *T {
	if source == nil {
		panic("weirotel: the source is nil")
	}
	return source
}

// register registers a callback that reads stats and observes them.
func register[S any](meter metric.Meter, name string, source *measure.Source[S], stats func() S) (metric.Registration, error) {
	if name == "" || !utf8.ValidString(name) {
		panic("weirotel: the name is empty or not UTF-8")
	}
	instruments, all, err := instrumentsOf(meter, source.Metrics)
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		source.Send(&observer{to, name, instruments}, stats())
		return nil
	}, all...)
}
