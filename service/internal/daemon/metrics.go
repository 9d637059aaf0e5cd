package daemon

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/service/internal/servermetric"
)

// metrics returns the handler of /metrics, with a registry of the daemon alone.
func (d *Daemon) metrics() (http.Handler, error) {
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

// operation collects the metrics of the daemon itself.
type operation struct{ *Daemon }

var (
	reloadedDesc = prometheus.NewDesc("weir_config_last_reload_successful", "Whether the last reload of the files succeeded.", nil, nil)
	reloadDesc   = prometheus.NewDesc("weir_config_last_reload_success_timestamp_seconds", "Time of the last successful load of the files.", nil, nil)
	failuresDesc = prometheus.NewDesc("weir_config_reload_failures_total", "Reloads that failed, and changed nothing.", nil, nil)
	openDesc     = prometheus.NewDesc("weir_serve_connections", "Connections of callers.", nil, nil)
	shedDesc     = prometheus.NewDesc("weir_serve_connections_shed_total", "Idle connections that were closed to make room for new ones.", nil, nil)
	requestsDesc = prometheus.NewDesc("weir_serve_requests_total", "Requests by endpoint and status; 499 if the client left while it waited, 0 for all other statuses.",
		[]string{"method", "route", "code"}, nil)
	batchedDesc  = prometheus.NewDesc("weir_serve_batched_total", "Requests that were part of a batch.", nil, nil)
	drainingDesc = prometheus.NewDesc("weir_serve_draining", "Whether the server is draining before it ends.", nil, nil)
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
