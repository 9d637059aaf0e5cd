package daemon

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/servermetric"
)

// metrics returns the handler of /metrics, with a registry of the daemon alone.
func (d *Daemon) metrics() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		servermetric.New(d.server), metric.NewCollector(nil, families, d.collect),
		collectors.NewGoCollector(), collectors.NewBuildInfoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}), nil
}

var (
	reloaded = metric.Gauge("weir_config_last_reload_successful", "Whether the last reload of the files succeeded.")
	loadedAt = metric.Gauge("weir_config_last_reload_success_timestamp_seconds",
		"Time of the last successful load of the files.")
	failures = metric.Counter("weir_config_reload_failures_total", "Reloads with an error in a file, which keeps its last good content.")
	open     = metric.Gauge("weir_serve_connections", "Connections of callers.")
	shed     = metric.Counter("weir_serve_connections_shed_total",
		"Idle connections that were closed to make room for new ones.")
	requests = metric.Counter("weir_serve_requests_total",
		"Requests by endpoint and status; 499 if the client left while it waited, 0 for all other statuses.",
		"method", "route", "code")
	batched  = metric.Counter("weir_serve_batched_total", "Requests that were part of a batch.")
	draining = metric.Gauge("weir_serve_draining", "Whether the server is draining before it ends.")

	families = []*metric.Family{reloaded, loadedAt, failures, open, shed, requests, batched, draining}
)

// collect sends the metrics of the daemon itself.
func (d *Daemon) collect(s metric.Scrape) {
	status, failed := d.reloads.state()
	now, replaced := d.conns.Count()
	s.Send(reloaded, flag(status.Error == nil))
	s.Send(loadedAt, float64(status.Success.UnixMilli())/1000)
	s.Send(failures, float64(failed))
	s.Send(open, float64(now))
	s.Send(shed, float64(replaced))
	s.Send(draining, flag(d.draining.Load()))
	answers := d.api.Stats()
	for _, a := range answers.Answers {
		s.Send(requests, float64(a.N), a.Method, a.Path, strconv.Itoa(a.Status))
	}
	s.Send(batched, float64(answers.Batched))
}

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}
