package origin

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are an Origin's own: two of them in one process do not mix.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	duration  prometheus.Histogram
	abandoned prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_origin_requests_total",
			Help: "Requests that have ended, by status; 499 = stopped because the client had left.",
		}, []string{"status"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "weir_origin_request_duration_seconds",
			Help:    "Time from a request's arrival to its end, the queue included, refusals excluded.",
			Buckets: []float64{.001, .005, .01, .05, .1, .25, .5, .75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 20, 30, 60},
		}),
		abandoned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_origin_abandoned_total",
			Help: "Requests that had ended after their client had left.",
		}),
	}
	m.registry.MustRegister(m.requests, m.duration, m.abandoned)
	return m
}

// watch publishes what Stats says at the time of a scrape.
func (m *metrics) watch(o *Origin) {
	gauge := func(name, help string, value func(Stats) int) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(o.Stats())) }))
	}
	gauge("weir_origin_workers", "Workers.", func(s Stats) int { return s.Workers })
	gauge("weir_origin_inflight", "Requests that a worker is busy with.", func(s Stats) int { return s.Inflight })
	gauge("weir_origin_waiting", "Requests that wait for a worker.", func(s Stats) int { return s.Waiting })
}

func (m *metrics) observe(d Done) {
	m.requests.WithLabelValues(strconv.Itoa(d.Status)).Inc()
	if d.Status != 503 {
		m.duration.Observe((d.End - d.Start).Seconds())
	}
	if d.Abandoned {
		m.abandoned.Inc()
	}
}
