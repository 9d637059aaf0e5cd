package report

import (
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/service/lab/internal/trace"
)

// Metrics counts a run for Prometheus while it goes on. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec

	mu     sync.Mutex // guards what follows
	labels map[string]bool
}

// Buckets returns the boundaries of the histogram of latencies, from 0.1 ms to two
// minutes. There are 24 in each decade, so a percentile that is interpolated within a
// bucket is at most 10 % wrong. Round numbers are in the middle of a bucket: if all
// requests take a bit more than 1 s, their percentiles are 0.95 to 1.05 s.
func Buckets() (buckets []float64) {
	for i := 0; ; i++ {
		b := math.Pow(10, -4+(float64(i)+0.5)/24)
		buckets = append(buckets, b)
		if b > 120 {
			return buckets
		}
	}
}

// NewMetrics returns metrics of a run. Traffic and inflight are called at each scrape.
func NewMetrics(traffic func() Traffic, inflight func() int64) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_load_requests_total", Help: "Requests that have ended, by status, or by the reason without one."}, []string{"status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_load_latency_seconds", Help: "Time from the intended start of a request to its end.", Buckets: Buckets(),
			NativeHistogramBucketFactor: 1.05, NativeHistogramMaxBucketNumber: 200, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"outcome"}),
		labels: map[string]bool{},
	}
	for _, outcome := range []string{"success", "rejected", "failed"} {
		m.latency.WithLabelValues(outcome)
	}
	counter := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	m.registry.MustRegister(m.requests, m.latency,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_load_inflight_requests", Help: "Requests that wait for their answers."},
			func() float64 { return float64(inflight()) }),
		counter("weir_load_connections_total", "Connections made.", func() int64 { return traffic().Connections }),
		counter("weir_load_sent_bytes_total", "Bytes sent on all connections.", func() int64 { return traffic().Sent }),
		counter("weir_load_received_bytes_total", "Bytes received on all connections.", func() int64 { return traffic().Received }),
	)
	return m
}

// Add counts a record.
func (m *Metrics) Add(r trace.Record) {
	m.requests.WithLabelValues(m.label(r)).Inc()
	switch latency := r.Latency().Seconds(); {
	case r.Success():
		m.latency.WithLabelValues("success").Observe(latency)
	case r.Rejected():
		m.latency.WithLabelValues("rejected").Observe(latency)
	case r.Failed():
		m.latency.WithLabelValues("failed").Observe(latency)
	}
}

// label bounds the number of values, because the server chooses them.
func (m *Metrics) label(r trace.Record) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	label := r.Label()
	if !m.labels[label] {
		if len(m.labels) >= maxLabels {
			return "other"
		}
		m.labels[label] = true
	}
	return label
}

// ServeHTTP answers with the metrics.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}).ServeHTTP(w, r)
}
