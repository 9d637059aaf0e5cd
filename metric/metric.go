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
// bounded by the source: classes, rules, reasons. A key is never a label.
//
// # Metrics
//
// NewHTTP and NewGRPC:
//
//   - weir_decisions_total{class, decision, reason}: requests. The decision is
//     "admit", "reject" with a reason, or "cancel" if the caller left the queue or
//     the limiter failed. An exempt request has the decision "exempt" and no class.
//   - weir_rule_decisions_total{rule, decision}: decisions of each rule: "allow",
//     "deny", or "shadow_deny" if the rule would have denied without Shadow.
//   - weir_shadowed_total{class, reason}: admitted requests that the limit would have
//     refused without Shadow.
//   - weir_outcomes_total{class, outcome}: requests that have ended.
//   - weir_limit, weir_inflight, weir_abandoned, weir_waiting{class}: the state of
//     an inflight.Limiter, and weir_waited_seconds_total{class}. Classes that share
//     a limiter show the same state.
//   - weir_long_lived: requests in progress that have left their limit, such as
//     event streams.
//
// NewLimiter: the same without rules, shadows and long-lived requests, with an
// empty class. NewKeyed: weir_keyed_…. NewThrottle: weir_throttle_…. NewRetries:
// weir_retries_… and weir_retry_…. NewCache and NewHTTPCache: weir_cache_….
//
// NewTransport and NewGRPCClient: weir_client_…. In weir_client_refused_total, the
// reason of an attempt that was not sent is "paced" if the server asked for too
// long a wait, or the queue for it was full; "throttled" by the adaptive throttle;
// "limited" by the limiter; "cancel" if the caller left, or the limiter failed (only
// gRPC). A gRPC client also has the metrics of its parts: weir_outcomes_total,
// weir_limit and so on, weir_throttle_…, weir_retries_… and weir_retry_…. A
// Transport, which has these parts for each host, has only weir_retries_….
package metric

import (
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/throttle"
)

// NewHTTP returns a collector of a Middleware. Like every constructor of this
// package, it panics if the source is nil, or if the name is empty or not UTF-8.
func NewHTTP(name string, m *httplimit.Middleware) prometheus.Collector {
	return newCollector(name, serverFamilies, need(m).Stats, Scrape.http)
}

// NewGRPC returns a collector of an Interceptor.
func NewGRPC(name string, i *grpclimit.Interceptor) prometheus.Collector {
	return newCollector(name, serverFamilies, need(i).Stats, Scrape.grpc)
}

// NewLimiter returns a collector of a concurrency limit.
func NewLimiter(name string, l *inflight.Limiter) prometheus.Collector {
	return newCollector(name, limiterFamilies, need(l).Stats, Scrape.limiter)
}

// NewKeyed returns a collector of a rate limit per key.
func NewKeyed[K comparable](name string, l *keyed.Limiter[K]) prometheus.Collector {
	return newCollector(name, keyedFamilies, need(l).Stats, Scrape.keyed)
}

// NewThrottle returns a collector of an adaptive throttle.
func NewThrottle(name string, l *throttle.Limiter) prometheus.Collector {
	return newCollector(name, throttleFamilies, need(l).Stats, Scrape.throttle)
}

// NewRetries returns a collector of a retry budget.
func NewRetries(name string, r *throttle.Retrier) prometheus.Collector {
	return newCollector(name, retryFamilies, need(r).Stats, Scrape.retries)
}

// NewCache returns a collector of a cache.
func NewCache[K comparable, V any](name string, c *cache.Cache[K, V]) prometheus.Collector {
	return newCollector(name, cacheFamilies, need(c).Stats, Scrape.cache)
}

// NewHTTPCache returns a collector of a cache of responses.
func NewHTTPCache(name string, c *httpcache.Cache) prometheus.Collector {
	return newCollector(name, httpCacheFamilies, need(c).Stats, Scrape.httpCache)
}

// NewTransport returns a collector of an HTTP client.
func NewTransport(name string, t *httpclient.Transport) prometheus.Collector {
	return newCollector(name, transportFamilies, need(t).Stats, Scrape.transport)
}

// NewGRPCClient returns a collector of a gRPC client.
func NewGRPCClient(name string, c *grpclimit.Client) prometheus.Collector {
	return newCollector(name, grpcClientFamilies, need(c).Stats, Scrape.grpcClient)
}

func need[T any](source *T) *T {
	if source == nil {
		panic("metric: the source is nil")
	}
	return source
}

// newCollector returns a collector that reads stats and sends them.
func newCollector[S any](name string, families []*Family, stats func() S, send func(Scrape, S)) prometheus.Collector {
	if name == "" || !utf8.ValidString(name) {
		panic("metric: the name is empty or not UTF-8")
	}
	return NewCollector(prometheus.Labels{"name": name}, families, func(s Scrape) { send(s, stats()) })
}
