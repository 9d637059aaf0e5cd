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
//     "deny", "shadow_deny" if the rule would have denied without Shadow, or "fail"
//     if its limiter has failed, and the request was admitted.
//   - weir_shadowed_total{class, reason}: admitted requests that the limit would have
//     refused without Shadow.
//   - weir_outcomes_total{class, outcome}: requests that have ended.
//   - weir_limit, weir_inflight, weir_abandoned, weir_waiting{class}: the state of
//     an inflight.Limiter, and weir_waited_seconds_total{class}. Classes that share
//     a limiter show the same state.
//   - weir_long_lived: requests in progress that have left their limit, such as
//     event streams.
//   - weir_unrouted_total: HTTP requests of the class "" that took a route, which
//     is not known (httplimit.Routes).
//
// NewLimiter: the same without rules, shadows and long-lived requests, with an
// empty class. NewKeyed: weir_keyed_…. NewThrottle: weir_throttle_…. NewRetries:
// weir_retries_… and weir_retry_…. NewCache and NewHTTPCache: weir_cache_….
// NewPressure: weir_pressure_….
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
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

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

// NewHTTP returns a collector of a Middleware. Like every constructor of this
// package, it panics if the source is nil, or if the name is empty or not UTF-8.
func NewHTTP(name string, m *httplimit.Middleware) prometheus.Collector {
	return newCollector(name, &measure.HTTP, need(m).Stats)
}

// NewGRPC returns a collector of an Interceptor.
func NewGRPC(name string, i *grpclimit.Interceptor) prometheus.Collector {
	need(i)
	return newCollector(name, &measure.GRPC, func() admission.Stats { return admission.Stats(i.Stats()) })
}

// NewLimiter returns a collector of a concurrency limit.
func NewLimiter(name string, l *inflight.Limiter) prometheus.Collector {
	return newCollector(name, &measure.Limiter, need(l).Stats)
}

// NewKeyed returns a collector of a rate limit per key.
func NewKeyed[K comparable](name string, l *keyed.Limiter[K]) prometheus.Collector {
	return newCollector(name, &measure.Keyed, need(l).Stats)
}

// NewThrottle returns a collector of an adaptive throttle.
func NewThrottle(name string, l *throttle.Limiter) prometheus.Collector {
	return newCollector(name, &measure.Throttle, need(l).Stats)
}

// NewRetries returns a collector of a retry budget.
func NewRetries(name string, r *throttle.Retrier) prometheus.Collector {
	return newCollector(name, &measure.Retries, need(r).Stats)
}

// NewCache returns a collector of a cache.
func NewCache[K comparable, V any](name string, c *cache.Cache[K, V]) prometheus.Collector {
	return newCollector(name, &measure.Cache, need(c).Stats)
}

// NewHTTPCache returns a collector of a cache of responses.
func NewHTTPCache(name string, c *httpcache.Cache) prometheus.Collector {
	return newCollector(name, &measure.HTTPCache, need(c).Stats)
}

// NewPressure returns a collector of a Guard.
func NewPressure(name string, g *pressure.Guard) prometheus.Collector {
	return newCollector(name, &measure.Pressure, need(g).Stats)
}

// NewTransport returns a collector of an HTTP client.
func NewTransport(name string, t *httpclient.Transport) prometheus.Collector {
	return newCollector(name, &measure.Transport, need(t).Stats)
}

// NewGRPCClient returns a collector of a gRPC client.
func NewGRPCClient(name string, c *grpclimit.Client) prometheus.Collector {
	need(c)
	return newCollector(name, &measure.GRPCClient, func() measure.Client { return measure.Client(c.Stats()) })
}

func need[T any](source *T) *T {
	if source == nil {
		panic("metric: the source is nil")
	}
	return source
}

// newCollector returns a collector that reads stats and sends them.
func newCollector[S any](name string, source *measure.Source[S], stats func() S) prometheus.Collector {
	if name == "" || !utf8.ValidString(name) {
		panic("metric: the name is empty or not UTF-8")
	}
	families := make(map[*measure.Metric]*Family)
	for _, m := range source.Metrics {
		families[m] = familyOf(m)
	}
	return NewCollector(prometheus.Labels{"name": name}, slices.Collect(maps.Values(families)), func(s Scrape) {
		source.Send(sink{s, families}, stats())
	})
}

// familyOf returns the Family of a metric.
func familyOf(m *measure.Metric) *Family {
	switch m.Kind {
	case measure.Counter:
		return Counter(m.Prometheus, m.Help, m.Labels...)
	case measure.Gauge:
		return Gauge(m.Prometheus, m.Help, m.Labels...)
	}
	return Histogram(m.Prometheus, m.Help, m.Labels...)
}

// A sink sends the values of a source to a Scrape.
type sink struct {
	Scrape
	families map[*measure.Metric]*Family
}

func (s sink) Value(m *measure.Metric, v float64, labels ...string) {
	s.Send(s.families[m], v, labels...)
}

func (s sink) Histogram(m *measure.Metric, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string) {
	s.SendHistogram(s.families[m], bounds, counts, sum, labels...)
}
