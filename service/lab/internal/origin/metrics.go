package origin

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are an Origin's own: two of them in one process do not mix.
type metrics struct {
	registry *prometheus.Registry
	duration prometheus.Histogram
}

// statuses are all that an origin answers to work.
var statuses = []int{
	http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge, statusClientGone,
	http.StatusInternalServerError, http.StatusServiceUnavailable,
}

// newMetrics publishes what o counts, at the time of a scrape.
func newMetrics(o *Origin) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	with := promauto.With(m.registry)
	// Service times of 1 s and 2 s, which the experiments have, are in narrow buckets: a quantile is
	// interpolated between their bounds.
	m.duration = with.NewHistogram(prometheus.HistogramOpts{
		Name:    "weir_origin_request_duration_seconds",
		Help:    "Time from a request's arrival to its end, the queue included, of work that was done (200, 500).",
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, .75, .95, 1.05, 1.25, 1.5, 1.75, 1.95, 2.05, 2.25, 2.5, 2.75, 3, 4, 5, 7.5, 10, 20, 30, 60},
	})
	for _, status := range statuses {
		with.NewCounterFunc(prometheus.CounterOpts{
			Name:        "weir_origin_requests_total",
			Help:        "Requests that have ended, by status; 499 = stopped because the client had left.",
			ConstLabels: prometheus.Labels{"status": strconv.Itoa(status)},
		}, func() float64 { return float64(o.Stats().Ended[status]) })
	}
	with.NewCounterFunc(prometheus.CounterOpts{
		Name: "weir_origin_abandoned_total",
		Help: "Requests that ended after their client had left, whatever their status.",
	}, func() float64 { return float64(o.Stats().Abandoned) })
	gauge := func(name, help string, value func(Stats) int) {
		with.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(o.Stats())) })
	}
	gauge("weir_origin_workers", "Workers.", func(s Stats) int { return s.Workers })
	gauge("weir_origin_inflight", "Requests that a worker is busy with.", func(s Stats) int { return s.Inflight })
	gauge("weir_origin_waiting", "Requests that wait for a worker.", func(s Stats) int { return s.Waiting })
	return m
}

func (m *metrics) observe(d Done) {
	if d.Status == http.StatusOK || d.Status == http.StatusInternalServerError {
		m.duration.Observe((d.End - d.Start).Seconds())
	}
}
