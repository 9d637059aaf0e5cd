package metric

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/metric/internal/collector"
)

// A Family describes the metrics of one name, for NewCollector.
type Family struct {
	name   string
	kind   prometheus.ValueType // 0: a histogram
	help   string
	labels []string
}

// Counter returns the Family of a counter.
func Counter(name, help string, labels ...string) *Family {
	return &Family{name, prometheus.CounterValue, help, labels}
}

// Gauge returns the Family of a gauge.
func Gauge(name, help string, labels ...string) *Family {
	return &Family{name, prometheus.GaugeValue, help, labels}
}

// Histogram returns the Family of a histogram.
func Histogram(name, help string, labels ...string) *Family {
	return &Family{name: name, help: help, labels: labels}
}

// NewCollector returns a Collector that calls collect for each scrape. The
// constant labels are part of every metric. This is the constructor for programs
// with metrics of their own beside those of this package.
func NewCollector(constant prometheus.Labels, families []*Family, collect func(Scrape)) prometheus.Collector {
	c := &familyCollector{descs: make(map[*Family]*prometheus.Desc), collect: collect}
	for _, f := range families {
		c.descs[f] = prometheus.NewDesc(f.name, f.help, f.labels, constant)
	}
	return c
}

type familyCollector struct {
	descs   map[*Family]*prometheus.Desc
	collect func(Scrape)
}

func (c *familyCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *familyCollector) Collect(ch chan<- prometheus.Metric) {
	c.collect(Scrape{descs: c.descs, ch: ch})
}

// A Scrape receives the values of one reading of a source.
type Scrape struct {
	descs     map[*Family]*prometheus.Desc
	ch        chan<- prometheus.Metric
	exemplars *Exemplars // nil: none
}

// With returns a Scrape that sends histograms with exemplars.
func (s Scrape) With(e *Exemplars) Scrape {
	s.exemplars = e
	return s
}

// Send sends a counter or a gauge. Texts that are not UTF-8 are sent quoted, so
// that clients can be the source of labels.
func (s Scrape) Send(f *Family, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(s.descs[f], f.kind, v, measure.Quote(labels)...)
}

// SendHistogram sends a histogram of durations, in seconds. There is one more count
// than bounds: for durations beyond the last bound.
func (s Scrape) SendHistogram(f *Family, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string) {
	h := collector.Histogram(s.descs[f], bounds, counts, sum, labels)
	if s.exemplars != nil {
		h = s.exemplars.add(h)
	}
	s.ch <- h
}

// SendDecisions sends the decisions of an inflight.Limiter to a counter with the
// labels decision and reason, after the labels given here.
func (s Scrape) SendDecisions(f *Family, st inflight.Stats, labels ...string) {
	labels = slices.Clip(labels)
	s.count(f, st.Admitted, append(labels, "admit", "")...)
	s.count(f, st.Cancelled, append(labels, "cancel", "")...)
	sendEach(s, f, st.Rejected, append(labels, "reject")...)
}

// SendOutcomes sends the outcomes of an inflight.Limiter to a counter with the
// label outcome, after the labels given here.
func (s Scrape) SendOutcomes(f *Family, st inflight.Stats, labels ...string) {
	sendEach(s, f, st.Outcomes, labels...)
}

// sendEach sends counts with their names as the last label.
func sendEach[K interface {
	comparable
	fmt.Stringer
}](s Scrape, f *Family, counts map[K]uint64, labels ...string) {
	for name, n := range counts {
		s.count(f, n, append(slices.Clip(labels), name.String())...)
	}
}

func (s Scrape) count(f *Family, n uint64, labels ...string) { s.Send(f, float64(n), labels...) }
