package daemon

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/blackbox"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/servermetric"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// metrics returns the handler of /metrics, with a registry of the daemon alone.
func (d *Daemon) metrics() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	if d.shared != nil {
		registry.MustRegister(servermetric.NewStore(d.shared))
	}
	if d.tier != nil {
		registry.MustRegister(servermetric.NewTier(d.tier.Tier, d.tier.link))
	}
	if d.fleet != nil {
		registry.MustRegister(servermetric.NewPeers(d.fleet.ring.Stats))
	}
	if d.decisions != nil {
		registry.MustRegister(servermetric.NewDecisions(d.decisions))
	}
	links := map[string]*serve.Handler{"leaves": d.leaves.Handler}
	if d.fleet != nil {
		links["peers"] = d.fleet.handler
	}
	for _, c := range append([]prometheus.Collector{
		servermetric.New(d.server), servermetric.NewLinks(links), metric.NewCollector(nil, families, d.collect), metric.NewCollector(nil, blackbox.Families, d.cfg.Box.Collect),
		collectors.NewGoCollector(), collectors.NewBuildInfoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, d.cfg.Collectors...) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	d.cfg.Export.Gather(registry)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: d.cfg.Export.Traces()}), nil
}

var (
	reloaded = metric.Gauge("weir_config_last_reload_successful", "Whether the last reload of the files succeeded.")
	loadedAt = metric.Gauge("weir_config_last_reload_success_timestamp_seconds",
		"Time of the last successful load of the files.")
	failures = metric.Counter("weir_config_reload_failures_total", "Reloads with an error in a file, which keeps its last good content.")
	open     = metric.Gauge("weir_serve_connections", "Connections of callers.")
	shed     = metric.Counter("weir_serve_connections_shed_total",
		"Idle connections that were closed to make room for new ones.")
	delayed = metric.Counter("weir_serve_reads_delayed_total",
		"Reads from HTTP/2 connections that were delayed because the client sent too many frames besides requests.")
	places  = metric.Gauge("weir_serve_places", "Requests (of bodies: bytes of batches) that may be in progress at once.", "bound")
	taken   = metric.Gauge("weir_serve_places_taken", "Requests (of bodies: bytes of batches) in progress.", "bound")
	refused = metric.Counter("weir_serve_refused_total",
		"Connections and requests refused because their address, or all, had too many; waiting ones were decided at once instead.", "bound")
	requests = metric.Counter("weir_serve_requests_total",
		"Requests by endpoint and status; 499 if the client left while it waited, 0 for all other statuses.",
		"method", "route", "code")
	latency = metric.Histogram("weir_serve_decision_seconds",
		"Time in the server of requests for a key that did not wait. One request in 64 is measured.")
	uses        = metric.Counter("weir_serve_token_requests_total", "Requests by token; without a known one, the name is empty.", "token")
	bound       = metric.Gauge("weir_serve_bound", "Bounds as configured: connections, waiting and leases in number, memory in bytes.", "of")
	batched     = metric.Counter("weir_serve_batched_total", "Requests that were part of a batch.")
	saved       = metric.Gauge("weir_state_last_save_timestamp_seconds", "Time of the last save of the state that succeeded. Absent without --state.")
	saveTook    = metric.Gauge("weir_state_last_save_duration_seconds", "Duration of the last save of the state.")
	saveSize    = metric.Gauge("weir_state_size_bytes", "Size of the saved state.")
	unsaved     = metric.Counter("weir_state_save_failures_total", "Saves of the state that failed.")
	respOpen    = metric.Gauge("weir_resp_connections", "Connections of clients of Redis. Absent without --resp-listen, as all of weir_resp.")
	respShed    = metric.Counter("weir_resp_connections_shed_total", "Idle connections of clients of Redis that were closed to make room for new ones.")
	respRefused = metric.Counter("weir_resp_connections_refused_total", "Connections of clients of Redis that were refused because their address, or all, had too many.")
	respEnded   = metric.Counter("weir_resp_connections_ended_total",
		"Connections of clients of Redis that the server ended: slow_reader, slow_command, or protocol for bytes that are no command.", "reason")
	respCommands = metric.Counter("weir_resp_commands_total", "Commands by name and result: ok, denied or error.", "command", "result")
	draining     = metric.Gauge("weir_serve_draining", "Whether the server is draining before it ends.")

	rlsAnswers  = metric.Counter("weir_rls_answers_total", "Answers of the rate-limit service: OK, OVER_LIMIT, or the gRPC code of an error.", "code")
	rlsHits     = metric.Counter("weir_rls_total_hits_total", "Hits that the rate-limit service was asked for, by rule; of rules beyond 200 as others.", "rule")
	rlsWithin   = metric.Counter("weir_rls_within_limit_total", "Hits within the limit.", "rule")
	rlsNear     = metric.Counter("weir_rls_near_limit_total", "Hits within the limit, but beyond its share --rls-near-limit.", "rule")
	rlsOver     = metric.Counter("weir_rls_over_limit_total", "Hits beyond the limit, also in shadow and quota mode.", "rule")
	rlsShadow   = metric.Counter("weir_rls_shadow_mode_total", "Hits beyond the limit that were allowed by shadow or quota mode.", "rule")
	rlqsStreams = metric.Gauge("weir_rlqs_streams", "Streams of proxies to the rate limit quota service.")
	rlqsBuckets = metric.Gauge("weir_rlqs_buckets", "Buckets of proxies with an assignment; at most 100,000, of one address half of them.")
	rlqsReports = metric.Counter("weir_rlqs_reports_total", "Reports about the use of a bucket.")
	rlqsRefused = metric.Counter("weir_rlqs_refused_total", "Of these, reports without an answer: invalid, forbidden, or beyond a bound.")

	families = []*metric.Family{latency, uses, bound, reloaded, loadedAt, failures, open, shed, delayed, places, taken, refused, requests, batched, draining,
		respOpen, respShed, respRefused, respEnded, respCommands,
		saved, saveTook, saveSize, unsaved, rlsAnswers, rlsHits, rlsWithin, rlsNear, rlsOver, rlsShadow, rlqsStreams, rlqsBuckets, rlqsReports, rlqsRefused}
)

// collect sends the metrics of the daemon itself.
func (d *Daemon) collect(s metric.Scrape) {
	status, failed := d.reloads.state()
	conns := d.connections()
	s.Send(reloaded, flag(status.Error == nil))
	s.Send(loadedAt, float64(status.Success.UnixMilli())/1000)
	s.Send(failures, float64(failed))
	s.Send(open, float64(conns.Open))
	s.Send(shed, float64(conns.Shed))
	s.Send(delayed, float64(conns.Delayed))
	s.Send(refused, float64(conns.Refused), "connections")
	s.Send(draining, flag(d.draining.Load()))
	if d.state != nil {
		saves := d.state.Stats()
		s.Send(saved, float64(saves.Last.UnixMilli())/1000)
		s.Send(saveTook, saves.Took.Seconds())
		s.Send(saveSize, float64(saves.Bytes))
		s.Send(unsaved, float64(saves.Failures))
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
	s.With(d.exemplars).SendHistogram(latency, httpapi.LatencyBounds[:], answers.Took, answers.TookSum)
	d.resp.collect(s)
	d.guard.Uses(func(name string, n uint64) { s.Send(uses, float64(n), name) })
	quotas := d.rlqs.Stats()
	s.Send(rlqsStreams, float64(quotas.Streams))
	s.Send(rlqsBuckets, float64(quotas.Buckets))
	s.Send(rlqsReports, float64(quotas.Reports))
	s.Send(rlqsRefused, float64(quotas.Refused))
	d.rls.Answers(func(code string, n uint64) { s.Send(rlsAnswers, float64(n), code) })
	d.rls.Hits(func(rule string, h grpcapi.Hits) {
		s.Send(rlsHits, float64(h.Total), rule)
		s.Send(rlsWithin, float64(h.Within), rule)
		s.Send(rlsNear, float64(h.Near), rule)
		s.Send(rlsOver, float64(h.Over), rule)
		s.Send(rlsShadow, float64(h.Shadow), rule)
	})
	for of, n := range map[string]int{
		"connections": d.conns.Max(), "waiting": max(d.cfg.Server.MaxWaiting, 0), "leases": d.cfg.Server.MaxLeases, "memory": d.cfg.Server.Memory,
	} {
		s.Send(bound, float64(n), of)
	}
}

// collect sends the metrics of the clients of Redis.
func (r *respServer) collect(s metric.Scrape) {
	if r.api == nil {
		return
	}
	conns, stats := r.conns.Count(), r.api.Stats()
	s.Send(respOpen, float64(conns.Open))
	s.Send(respShed, float64(conns.Shed))
	s.Send(respRefused, float64(conns.Refused))
	for reason, n := range stats.Ended {
		s.Send(respEnded, float64(n), reason)
	}
	for _, c := range stats.Commands {
		s.Send(respCommands, float64(c.N), c.Command, c.Result)
	}
}

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}
