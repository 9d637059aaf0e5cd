// Package metric exports limiters, throttles and caches to Prometheus. There is a
// constructor for each type. A collector reads the Stats of its source during a
// scrape, and costs nothing between scrapes:
//
//	m, err := httplimit.New(httplimit.Config{PerClass: httplimit.Auto})
//	...
//	prometheus.MustRegister(metric.NewHTTP("api", m))
//
// The name becomes the label "name" of every metric. Collectors with different
// names, or of different types, can be registered together. The other labels are
// bounded by the source: classes, rules, reasons. A key is never a label. Package
// grpcmetric has the constructors for package grpclimit.
//
// # Metrics
//
// NewHTTP, and grpcmetric.NewServer for package grpclimit:
//
//   - weir_decisions_total{class, decision, reason}: requests. The decision is
//     "admit", "reject" with a reason, or "cancel" if the caller left the queue or
//     the limiter failed. An exempt request has the decision "exempt" and no class.
//   - weir_rule_decisions_total{rule, decision}: decisions of each rule: "allow",
//     "deny", "shadow_deny" if the rule would have denied without Shadow, or "fail"
//     if its limiter has failed, and the request was admitted.
//   - weir_shadowed_total{class, reason}: admitted requests that the limit would have
//     refused without Shadow.
//   - weir_outcomes_total{class, outcome}: requests that have ended.
//   - weir_wasted_total{class}: those of them that ended after their caller had left, or
//     their deadline. If its rate is a tenth of that of all outcomes, a tenth of the
//     work was done for no caller.
//   - weir_limit, weir_inflight, weir_abandoned, weir_waiting{class}: the state of
//     an inflight.Limiter. Classes that share a limiter show the same state.
//   - weir_wait_seconds{class}: a histogram of the times that admitted requests were in
//     the queue. The ones that did not wait are in the first bucket. NewWaits adds exemplars.
//   - weir_limit_changes_total{class, cause}: changes of the limit, by limit.Cause.
//     A cause is there once it has occurred.
//   - weir_patience_seconds{class}: inflight.Stats.Patience; 0 if it is not known.
//   - weir_long_lived: requests in progress that have left their limit, such as
//     event streams. At most httplimit.Config.LongLived, 1000 by default.
//   - weir_long_lived_full_total: requests that held their units while they went on,
//     because that bound was reached.
//   - weir_unrouted_total: HTTP requests of the class "" that took a route, which
//     is not known (httplimit.Routes).
//
// NewLimiter: the same without rules, shadows and long-lived requests, with an
// empty class. NewKeyed: weir_keyed_…. NewThrottle: weir_throttle_…. NewRetries:
// weir_retries_… and weir_retry_…. NewCache and NewHTTPCache: weir_cache_….
// NewPressure: weir_pressure_….
//
// NewTransport and grpcmetric.NewClient: weir_client_…. In weir_client_refused_total, the
// reason of an attempt that was not sent is "paced" if the server asked for too
// long a wait, or the queue for it was full; "throttled" by the adaptive throttle;
// "limited" by the limiter; "cancel" if the caller left, or the limiter failed (only
// gRPC). A gRPC client also has the metrics of its parts: weir_outcomes_total,
// weir_limit and so on, weir_throttle_…, weir_retries_… and weir_retry_…. A
// Transport, which has these parts for each host, has only weir_retries_….
package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/metric/internal/collector"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/throttle"
)

// NewHTTP returns a collector of a Middleware, perhaps with exemplars of its waits. Like every
// constructor of this package, it panics if the source is nil, or if the name is empty or not
// UTF-8.
func NewHTTP(name string, m *httplimit.Middleware, waits ...*Waits) prometheus.Collector {
	var exemplars []collector.Exemplars
	for _, w := range waits {
		exemplars = append(exemplars, w.add)
	}
	return collector.New(name, &measure.HTTP, collector.Need(m).Stats, exemplars...)
}

// NewLimiter returns a collector of a concurrency limit.
func NewLimiter(name string, l *inflight.Limiter) prometheus.Collector {
	return collector.New(name, &measure.Limiter, collector.Need(l).Stats)
}

// NewKeyed returns a collector of a rate limit per key.
func NewKeyed[K comparable](name string, l *keyed.Limiter[K]) prometheus.Collector {
	return collector.New(name, &measure.Keyed, collector.Need(l).Stats)
}

// NewThrottle returns a collector of an adaptive throttle.
func NewThrottle(name string, l *throttle.Limiter) prometheus.Collector {
	return collector.New(name, &measure.Throttle, collector.Need(l).Stats)
}

// NewRetries returns a collector of a retry budget.
func NewRetries(name string, r *throttle.Retrier) prometheus.Collector {
	return collector.New(name, &measure.Retries, collector.Need(r).Stats)
}

// NewCache returns a collector of a cache.
func NewCache[K comparable, V any](name string, c *cache.Cache[K, V]) prometheus.Collector {
	return collector.New(name, &measure.Cache, collector.Need(c).Stats)
}

// NewHTTPCache returns a collector of a cache of responses.
func NewHTTPCache(name string, c *httpcache.Cache) prometheus.Collector {
	return collector.New(name, &measure.HTTPCache, collector.Need(c).Stats)
}

// NewPressure returns a collector of a Guard.
func NewPressure(name string, g *pressure.Guard) prometheus.Collector {
	return collector.New(name, &measure.Pressure, collector.Need(g).Stats)
}

// NewTransport returns a collector of an HTTP client.
func NewTransport(name string, t *httpclient.Transport) prometheus.Collector {
	return collector.New(name, &measure.Transport, collector.Need(t).Stats)
}
