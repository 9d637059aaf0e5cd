// Package metric tells Prometheus what limiters do. What any of them returns
// from its Stats becomes metrics at the time of a scrape; between scrapes it
// costs nothing:
//
//	m, err := httplimit.New(httplimit.Config{})
//	...
//	c, err := metric.New("api", m)
//	...
//	prometheus.MustRegister(c)
//
// Labels are the name that is given here, and what the source bounds itself:
// classes, rules, reasons. A key is never a label.
//
// # Metrics
//
// Of an httplimit.Middleware and a grpclimit.Interceptor:
//
//   - weir_decisions_total{class, decision, reason}: requests. The decision is
//     "admit", "reject" for a reason, or "cancel": the caller left, or ran out of
//     time, while it waited, or the limiter failed. What is exempt has the
//     decision "exempt" and no class.
//   - weir_rule_decisions_total{rule, decision}: what each rule has said: "allow",
//     "deny", or "shadow_deny": what it would have denied, but for Shadow.
//   - weir_shadowed_total{class, reason}: admitted requests that the limit would
//     have refused, but for Shadow.
//   - weir_outcomes_total{class, outcome}: requests whose work has ended.
//   - weir_limit, weir_inflight, weir_abandoned, weir_waiting{class}: units and
//     requests now, where the limit is one on work in flight; and
//     weir_waited_seconds_total{class}. Classes that share a limiter show the same.
//   - weir_long_lived: requests now that go on after the header of their response,
//     such as event streams, without a unit of their limit.
//
// Of an inflight.Limiter the same, bar rules and shadows, with an empty class.
// Of a keyed.Limiter weir_keyed_…; of a throttle.Limiter weir_throttle_…; of a
// throttle.Retrier weir_retries_… and weir_retry_…; of a cache.Cache and an
// httpcache.Cache weir_cache_….
//
// Of an httpclient.Transport and a grpclimit.Client weir_client_…. An attempt that
// was kept back has in weir_client_refused_total the reason "paced": it would have
// waited, or did, for too long for what the server has asked for, or in too long a
// line; "throttled": by the adaptive throttle; "limited": by the limiter; and, of
// a Client, "cancel": its caller left, or ran out of time, while it waited, or the
// limiter failed. A Client also has what its parts have: outcomes, weir_limit and the
// like, weir_throttle_…, of which weir_throttle_refusal_ratio is the chance that the
// next call is kept back, weir_retries_… and weir_retry_…; a Transport, which has
// parts for each host, the retries. The help texts say the rest.
package metric

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/throttle"
)

// A Collector is a prometheus.Collector of one source. It is safe for concurrent
// use.
type Collector struct {
	descs   map[*family]*prometheus.Desc
	collect func(scrape)
}

// New returns a Collector for a source that has one of the Stats in the package
// documentation, or an error that says that it has none. Collectors of different
// names, or of sources whose metrics differ, can be registered together.
func New(name string, source any) (*Collector, error) {
	if name == "" || !utf8.ValidString(name) {
		return nil, fmt.Errorf("metric: name = %q: must be text, and not empty", name)
	}
	if v := reflect.ValueOf(source); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("metric: %s: the source is a nil %T", name, source)
	}
	families, collect := read(source)
	if collect == nil {
		return nil, fmt.Errorf("metric: %s: nothing is known of a %T: its Stats are none of this module's", name, source)
	}
	c := &Collector{descs: make(map[*family]*prometheus.Desc), collect: collect}
	for _, f := range families {
		c.descs[f] = prometheus.NewDesc(f.name, f.help, f.labels, prometheus.Labels{"name": name})
	}
	return c, nil
}

// read returns what a source has, and what reads it.
func read(source any) (families []*family, collect func(scrape)) {
	switch s := source.(type) {
	case interface{ Stats() admission.Stats }:
		return ofDoor, func(c scrape) { c.door(s.Stats()) }
	case interface{ Stats() gate.Stats }:
		return ofGate, func(c scrape) { c.gate(s.Stats()) }
	case interface{ Stats() keyed.Stats }:
		return ofKeyed, func(c scrape) { c.keyed(s.Stats()) }
	case interface{ Stats() throttle.Stats }:
		return ofThrottle, func(c scrape) { c.throttle(s.Stats()) }
	case interface{ Stats() throttle.RetryStats }:
		return ofBudget, func(c scrape) { c.budget(s.Stats()) }
	case interface{ Stats() cache.Stats }:
		return ofCache, func(c scrape) { c.cache(s.Stats()) }
	case interface{ Stats() httpcache.Stats }:
		return ofHTTPCache, func(c scrape) { c.httpCache(s.Stats()) }
	case interface {
		Stats() httpclient.Stats
	}:
		return ofTransport, func(c scrape) { c.transport(s.Stats()) }
	case interface{ Stats() outgoing.Stats }:
		return ofClient, func(c scrape) { c.client(s.Stats()) }
	}
	return nil, nil
}

// Describe sends the metrics that there can be.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect sends what the source's Stats say now.
func (c *Collector) Collect(ch chan<- prometheus.Metric) { c.collect(scrape{c.descs, ch}) }

// A scrape is one reading of a source.
type scrape struct {
	descs map[*family]*prometheus.Desc
	ch    chan<- prometheus.Metric
}

func (c scrape) send(f *family, v float64, labels []string) {
	for i := range labels {
		labels[i] = label(labels[i])
	}
	c.ch <- prometheus.MustNewConstMetric(c.descs[f], f.kind, v, labels...)
}

func (c scrape) count(f *family, n uint64, labels ...string) { c.send(f, float64(n), labels) }
func (c scrape) gauge(f *family, n int, labels ...string)    { c.send(f, float64(n), labels) }

// label returns what stands for a text that clients may have chosen: Prometheus
// wants UTF-8, and different labels for different texts.
func label(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, `"`) {
		return s
	}
	return strconv.QuoteToASCII(s)
}
