package daemon

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/server/httpapi"
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
	places  = metric.Gauge("weir_serve_places", "Requests (of bodies: bytes) that may be in progress at once.", "bound")
	taken   = metric.Gauge("weir_serve_places_taken", "Requests (of bodies: bytes) in progress.", "bound")
	refused = metric.Counter("weir_serve_refused_total",
		"Connections and requests refused because their address, or all, had too many; waiting ones were decided at once instead.", "bound")
	requests = metric.Counter("weir_serve_requests_total",
		"Requests by endpoint and status; 499 if the client left while it waited, 0 for all other statuses.",
		"method", "route", "code")
	latency = metric.Histogram("weir_serve_decision_seconds",
		"Time in the server of requests for a key that did not wait. One request in 64 is measured.")
	uses     = metric.Counter("weir_serve_token_requests_total", "Requests by token; without a known one, the name is empty.", "token")
	bound    = metric.Gauge("weir_serve_bound", "Bounds as configured: connections, waiting and leases in number, memory in bytes.", "of")
	batched  = metric.Counter("weir_serve_batched_total", "Requests that were part of a batch.")
	saved    = metric.Gauge("weir_state_last_save_timestamp_seconds", "Time of the last save of the state that succeeded. Absent without --state.")
	saveTook = metric.Gauge("weir_state_last_save_duration_seconds", "Duration of the last save of the state.")
	saveSize = metric.Gauge("weir_state_size_bytes", "Size of the saved state.")
	unsaved  = metric.Counter("weir_state_save_failures_total", "Saves of the state that failed.")
	draining = metric.Gauge("weir_serve_draining", "Whether the server is draining before it ends.")

	families = []*metric.Family{latency, uses, bound, reloaded, loadedAt, failures, open, shed, places, taken, refused, requests, batched, draining,
		saved, saveTook, saveSize, unsaved}
)

// collect sends the metrics of the daemon itself.
func (d *Daemon) collect(s metric.Scrape) {
	status, failed := d.reloads.state()
	conns := d.conns.Count()
	s.Send(reloaded, flag(status.Error == nil))
	s.Send(loadedAt, float64(status.Success.UnixMilli())/1000)
	s.Send(failures, float64(failed))
	s.Send(open, float64(conns.Open))
	s.Send(shed, float64(conns.Shed))
	s.Send(refused, float64(conns.Refused), "connections")
	s.Send(draining, flag(d.draining.Load()))
	if d.cfg.State != "" {
		d.saves.mu.Lock()
		s.Send(saved, float64(d.saves.last.UnixMilli())/1000)
		s.Send(saveTook, d.saves.took.Seconds())
		s.Send(saveSize, float64(d.saves.bytes))
		s.Send(unsaved, float64(d.saves.failures))
		d.saves.mu.Unlock()
	}
	answers := d.api.Stats()
	for _, l := range answers.Limits {
		s.Send(places, float64(l.Places), l.Name)
		s.Send(taken, float64(l.Taken), l.Name)
		s.Send(refused, float64(l.Refused), l.Name)
	}
	for _, a := range answers.Answers {
		s.Send(requests, float64(a.N), a.Method, a.Path, strconv.Itoa(a.Status))
	}
	s.Send(batched, float64(answers.Batched))
	s.SendHistogram(latency, httpapi.LatencyBounds[:], answers.Took, answers.TookSum)
	d.guard.Uses(func(name string, n uint64) { s.Send(uses, float64(n), name) })
	for of, n := range map[string]int{
		"connections": d.conns.Max(), "waiting": max(d.cfg.Server.MaxWaiting, 0), "leases": d.cfg.Server.MaxLeases, "memory": d.cfg.Server.Memory,
	} {
		s.Send(bound, float64(n), of)
	}
}

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}
