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
//   - weir.wasted, weir.limit, weir.inflight, weir.abandoned, weir.waiting, weir.wait.…,
//     weir.patience{weir.class}; weir.limit_changes{weir.class, weir.cause}; weir.long_lived,
//     weir.long_lived_full
//   - weir.keyed.…, weir.throttle.…, weir.retries, weir.retries_exhausted, weir.retry.…,
//     weir.cache.…{weir.status}, weir.client.…{weir.reason}; weir.pressure,
//     weir.pressure_shed, weir.pressure_rejected{weir.priority}, weir.pressure_failed
//
// They mean what those of module metric mean, which documents them, and Prometheus shows them
// under the same names, with two exceptions. weir.cache.size is weir_cache_bytes there. Its
// histograms weir_wait_seconds and weir_client_wait_seconds are three counters each, because
// OpenTelemetry has no histograms that a callback reads: weir.wait.time (the sum),
// weir.wait.count and weir.wait.bucket{le}, which counts the waits of at most le seconds, as
// the buckets of Prometheus do.
//
// SDKs keep 2,000 sets of attributes of each metric by default. An httplimit.Middleware with
// more than 100 classes needs more: see the option WithCardinalityLimit of the SDK.
//
// Package grpcotel has the functions for package grpclimit.
//
// # Traces
//
// Handler and Transport, and the interceptors of package grpcotel, add the decision about a
// request to the current span, which an instrumentation such as otelhttp has started around
// them:
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
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/throttle"
	"github.com/weir-go/weir/weirotel/internal/instrument"
)

// MeasureHTTP registers the metrics of a Middleware until the Registration is unregistered. Like
// every such function of this package, it panics if the source is nil, or if the name is empty
// or not UTF-8. An error is one of the meter.
func MeasureHTTP(meter metric.Meter, name string, m *httplimit.Middleware) (metric.Registration, error) {
	return instrument.Register(meter, name, &measure.HTTP, instrument.Need(m).Stats)
}

// MeasureLimiter registers the metrics of a concurrency limit.
func MeasureLimiter(meter metric.Meter, name string, l *inflight.Limiter) (metric.Registration, error) {
	return instrument.Register(meter, name, &measure.Limiter, instrument.Need(l).Stats)
}

// MeasureKeyed registers the metrics of a rate limit per key.
func MeasureKeyed[K comparable](meter metric.Meter, name string, l *keyed.Limiter[K]) (metric.Registration, error) {
	return instrument.Register(meter, name, &measure.Keyed, instrument.Need(l).Stats)
}

// MeasureThrottle registers the metrics of an adaptive throttle.
func MeasureThrottle(meter metric.Meter, name string, l *throttle.Limiter) (metric.Registration, error) {
	return instrument.Register(meter, name, &measure.Throttle, instrument.Need(l).Stats)
}

// MeasureRetries registers the metrics of a retry budget.
func MeasureRetries(meter metric.Meter, name string, r *throttle.Retrier) (metric.Registration, error) {
	return instrument.Register(meter, name, &measure.Retries, instrument.Need(r).Stats)
}

// MeasureCache registers the metrics of a cache.
func MeasureCache[K comparable, V any](meter metric.Meter, name string, c *cache.Cache[K, V]) (metric.Registration, error) {
	return instrument.Register(meter, name, &measure.Cache, instrument.Need(c).Stats)
}

// MeasureHTTPCache registers the metrics of a cache of responses.
func MeasureHTTPCache(meter metric.Meter, name string, c *httpcache.Cache) (metric.Registration, error) {
	return instrument.Register(meter, name, &measure.HTTPCache, instrument.Need(c).Stats)
}

// MeasurePressure registers the metrics of a Guard.
func MeasurePressure(meter metric.Meter, name string, g *pressure.Guard) (metric.Registration, error) {
	return instrument.Register(meter, name, &measure.Pressure, instrument.Need(g).Stats)
}

// MeasureTransport registers the metrics of an HTTP client.
func MeasureTransport(meter metric.Meter, name string, t *httpclient.Transport) (metric.Registration, error) {
	return instrument.Register(meter, name, &measure.Transport, instrument.Need(t).Stats)
}
