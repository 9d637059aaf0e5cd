package main

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/service/internal/servermetric"
)

// metrics serves /metrics, of a registry that is the daemon's own.
func (d *daemon) metrics() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		servermetric.New(d.server), operation{d}, collectors.NewGoCollector(), collectors.NewBuildInfoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}), nil
}

// operation collects how the daemon itself fares.
type operation struct{ *daemon }

var (
	reloadedDesc = prometheus.NewDesc("weir_config_last_reload_successful", "Whether the last load of the files succeeded.", nil, nil)
	reloadDesc   = prometheus.NewDesc("weir_config_last_reload_success_timestamp_seconds", "When the files were last loaded.", nil, nil)
	failuresDesc = prometheus.NewDesc("weir_config_reload_failures_total", "Loads that failed, and changed nothing.", nil, nil)
	openDesc     = prometheus.NewDesc("weir_serve_connections", "Connections of callers.", nil, nil)
	shedDesc     = prometheus.NewDesc("weir_serve_connections_shed_total", "Connections without a request that made room for others.", nil, nil)
	requestsDesc = prometheus.NewDesc("weir_serve_requests_total", "Requests by endpoint and answer; 499 is who left while waiting, 0 all other answers.",
		[]string{"method", "route", "code"}, nil)
	batchedDesc  = prometheus.NewDesc("weir_serve_batched_total", "Requests that came in batches.", nil, nil)
	drainingDesc = prometheus.NewDesc("weir_serve_draining", "Whether the server is about to end.", nil, nil)
)

func (o operation) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(o, ch) }

func (o operation) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	flag := func(d *prometheus.Desc, set bool) {
		v := 0.0
		if set {
			v = 1
		}
		send(d, prometheus.GaugeValue, v)
	}
	st := o.files.state()
	open, shed := o.conns.Count()
	flag(reloadedDesc, st.Error == nil)
	send(reloadDesc, prometheus.GaugeValue, float64(st.Success.UnixMilli())/1000)
	send(failuresDesc, prometheus.CounterValue, float64(o.files.failed()))
	send(openDesc, prometheus.GaugeValue, float64(open))
	send(shedDesc, prometheus.CounterValue, float64(shed))
	flag(drainingDesc, o.phase.draining.Load())
	answers := o.api.Stats()
	for _, a := range answers.Answers {
		send(requestsDesc, prometheus.CounterValue, float64(a.N), a.Method, a.Path, strconv.Itoa(a.Status))
	}
	send(batchedDesc, prometheus.CounterValue, float64(answers.Batched))
}
