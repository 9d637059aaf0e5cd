// Package measure turns the Stats of limiters, throttles and caches into metrics, for the
// modules that export them.
package measure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/throttle"
)

// A Kind is the kind of a metric.
type Kind uint8

const (
	Counter   Kind = iota
	Gauge          // a state, which can be added up unless its unit is 1
	Histogram      // of durations
)

// A Metric describes the values of one name.
type Metric struct {
	Prometheus string // its name there
	Name       string // by the conventions of OpenTelemetry
	Kind       Kind
	Unit       string // of UCUM
	Help       string
	Labels     []string
}

// A Sink receives the values of one reading of a source. It does not keep labels.
type Sink interface {
	Value(m *Metric, v float64, labels ...string)
	// Histogram has one more count than bounds: for durations beyond the last bound.
	Histogram(m *Metric, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string)
}

// A Source describes the metrics of Stats.
type Source[S any] struct {
	Metrics []*Metric
	send    func(sink, S)
}

// Send sends the metrics of stats.
func (s *Source[S]) Send(to Sink, stats S) { s.send(sink{to}, stats) }

// The sources.
var (
	HTTP       = Source[httplimit.Stats]{serverMetrics, sink.http}
	GRPC       = Source[admission.Stats]{serverMetrics, sink.grpc}
	Limiter    = Source[inflight.Stats]{limiterMetrics, sink.limiter}
	Keyed      = Source[keyed.Stats]{keyedMetrics, sink.keyed}
	Throttle   = Source[throttle.Stats]{throttleMetrics, sink.throttle}
	Retries    = Source[throttle.RetryStats]{retryMetrics, sink.retries}
	Cache      = Source[cache.Stats]{cacheMetrics, sink.cache}
	HTTPCache  = Source[httpcache.Stats]{httpCacheMetrics, sink.httpCache}
	Transport  = Source[httpclient.Stats]{transportMetrics, sink.transport}
	Pressure   = Source[pressure.Stats]{pressureMetrics, sink.pressure}
	GRPCClient = Source[Client]{grpcClientMetrics, sink.grpcClient}
)

// Client has the fields of grpclimit.ClientStats, which documents them: that is a module.
type Client struct {
	Waiting                                               int
	Sent, Waited, Rejected, Throttled, Limited, Cancelled uint64
	Outcomes                                              map[weir.Outcome]uint64
	Throttle                                              *throttle.Stats
	Budget                                                *throttle.RetryStats
	Limiter                                               *inflight.Stats
}

type sink struct{ Sink }

func (to sink) count(m *Metric, n uint64, labels ...string) { to.Value(m, float64(n), labels...) }
func (to sink) gauge(m *Metric, n int, labels ...string)    { to.Value(m, float64(n), labels...) }

// each sends counts with their names as the last label.
func each[K interface {
	comparable
	fmt.Stringer
}](to sink, m *Metric, counts map[K]uint64, labels ...string) {
	for name, n := range counts {
		to.count(m, n, append(slices.Clip(labels), name.String())...)
	}
}

// Quote replaces, in place, texts that are not UTF-8, which exporters do not take. It quotes
// texts that begin with a quote as well, so that different texts stay different.
func Quote(labels []string) []string {
	for i, s := range labels {
		if !utf8.ValidString(s) || strings.HasPrefix(s, `"`) {
			labels[i] = strconv.QuoteToASCII(s)
		}
	}
	return labels
}
