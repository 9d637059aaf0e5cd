// Package collector collects the metrics of package measure for Prometheus.
package collector

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/internal/measure"
)

// Need returns source. It panics if that is nil.
func Need[T any](source *T) *T {
	if source == nil {
		panic("metric: the source is nil")
	}
	return source
}

// Exemplars adds exemplars to a histogram.
type Exemplars func(labels []string, to prometheus.Metric) prometheus.Metric

// New returns a Collector that reads stats for each scrape. It panics if the name, which is a
// label of every metric, is empty or not UTF-8.
func New[S any](name string, source *measure.Source[S], stats func() S, exemplars ...Exemplars) prometheus.Collector {
	if name == "" || !utf8.ValidString(name) {
		panic("metric: the name is empty or not UTF-8")
	}
	c := &collector[S]{source, stats, make(map[*measure.Metric]*prometheus.Desc), exemplars}
	for _, m := range source.Metrics {
		c.descs[m] = prometheus.NewDesc(m.Prometheus, m.Help, m.Labels, prometheus.Labels{"name": name})
	}
	return c
}

type collector[S any] struct {
	source    *measure.Source[S]
	stats     func() S
	descs     map[*measure.Metric]*prometheus.Desc
	exemplars []Exemplars
}

func (c *collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *collector[S]) Collect(ch chan<- prometheus.Metric) {
	c.source.Send(sink{c.descs, ch, c.exemplars}, c.stats())
}

// A sink sends the values of a source to a scrape.
type sink struct {
	descs     map[*measure.Metric]*prometheus.Desc
	ch        chan<- prometheus.Metric
	exemplars []Exemplars
}

func (s sink) Value(m *measure.Metric, v float64, labels ...string) {
	kind := prometheus.CounterValue
	if m.Kind == measure.Gauge {
		kind = prometheus.GaugeValue
	}
	s.ch <- prometheus.MustNewConstMetric(s.descs[m], kind, v, measure.Quote(labels)...)
}

func (s sink) Histogram(m *measure.Metric, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string) {
	h := Histogram(s.descs[m], bounds, counts, sum, slices.Clone(labels)) // which it quotes
	for _, add := range s.exemplars {
		h = add(labels, h)
	}
	s.ch <- h
}

// Histogram returns a histogram of durations, in seconds. There is one more count than bounds:
// for durations beyond the last bound.
func Histogram(d *prometheus.Desc, bounds []time.Duration, counts []uint64, sum time.Duration, labels []string) prometheus.Metric {
	buckets, n := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, bound := range bounds {
		n += counts[i]
		buckets[bound.Seconds()] = n
	}
	n += counts[len(bounds)]
	return prometheus.MustNewConstHistogram(d, n, sum.Seconds(), buckets, measure.Quote(labels)...)
}
