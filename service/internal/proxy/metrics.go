package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
)

// seconds are histogram buckets from a refusal to a very slow origin.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// metrics are a Proxy's own: two of them in one process do not mix.
type metrics struct {
	registry     *prometheus.Registry
	wait         prometheus.Histogram
	origin       prometheus.Histogram
	limitChanges *prometheus.CounterVec
	originErrors *prometheus.CounterVec
	longLived    *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "weir_proxy_wait_seconds",
			Help:    "Time that admitted requests waited for a permit.",
			Buckets: seconds,
		}),
		origin: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "weir_proxy_origin_duration_seconds",
			Help:    "Time from asking the origin to its answer's header, or its failure, while the client waited.",
			Buckets: seconds,
		}),
		limitChanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_proxy_limit_changes_total",
			Help: "Changes of the limit, by cause.",
		}, []string{"cause"}),
		originErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_proxy_origin_errors_total",
			Help: "Requests that the proxy answered because the origin did not, by reason.",
		}, []string{"reason"}),
	}
	m.longLived = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_proxy_long_lived_total",
		Help: "Exchanges that went on without being counted as in flight, by why.",
	}, []string{"why"})
	m.registry.MustRegister(m.longLived, m.wait, m.origin, m.limitChanges, m.originErrors)
	return m
}

// watch publishes what Stats says at the time of a scrape.
func (m *metrics) watch(p *Proxy) { m.registry.MustRegister(statsCollector{p}) }

type statsCollector struct{ proxy *Proxy }

var (
	limitDesc     = prometheus.NewDesc("weir_proxy_limit", "Requests that may be in flight.", nil, nil)
	inflightDesc  = prometheus.NewDesc("weir_proxy_inflight", "Requests in flight, abandoned ones included.", nil, nil)
	waitingDesc   = prometheus.NewDesc("weir_proxy_waiting", "Requests in the queue.", nil, nil)
	abandonedDesc = prometheus.NewDesc("weir_proxy_abandoned", "Requests in flight that nobody waits for.", nil, nil)
	longDesc      = prometheus.NewDesc("weir_proxy_long_lived", "Exchanges that go on without being counted as in flight.", nil, nil)
	longFullDesc  = prometheus.NewDesc("weir_proxy_long_lived_full_total", "Times that a long-lived exchange stayed in flight, as there were too many.", nil, nil)
	conditionDesc = prometheus.NewDesc("weir_proxy_condition", "What the proxy sees of the origin: 1 for the condition that holds.", []string{"condition"}, nil)
	signsDesc     = prometheus.NewDesc("weir_proxy_signs_total", "Answers of the origin, or their lack, by what they say about its load.", []string{"sign"}, nil)
	connsDesc     = prometheus.NewDesc("weir_proxy_connections", "Connections of clients.", nil, nil)
	decisionsDesc = prometheus.NewDesc("weir_proxy_decisions_total", "Requests by decision, and why.",
		[]string{"decision", "reason"}, nil)
	outcomesDesc = prometheus.NewDesc("weir_proxy_outcomes_total", "Finished requests by what they said about load.",
		[]string{"outcome"}, nil)
)

func (c statsCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c statsCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.proxy.Stats()
	gauge := func(d *prometheus.Desc, v int) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(limitDesc, s.Limit)
	gauge(inflightDesc, s.Inflight)
	gauge(waitingDesc, s.Waiting)
	gauge(abandonedDesc, s.Abandoned)
	gauge(longDesc, s.LongLived)
	now := c.proxy.Status().Condition
	for _, condition := range Conditions {
		v := 0.0
		if condition == now {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, v, string(condition))
	}
	counter(longFullDesc, c.proxy.long.Full())
	for sign := range c.proxy.signs {
		counter(signsDesc, c.proxy.signs[sign].Load(), loadsign.Sign(sign).String())
	}
	gauge(connsDesc, s.Connections)
	counter(decisionsDesc, s.Admitted, "admit", "")
	counter(decisionsDesc, s.Stats.OverLimit, "reject", weir.OverLimit.String())
	counter(decisionsDesc, s.QueueFull+s.Evicted, "reject", weir.QueueFull.String()) // the evicted are told the same
	counter(decisionsDesc, s.Overdue, "reject", weir.Overdue.String())
	counter(decisionsDesc, s.TooLate, "reject", weir.TooLate.String())
	counter(decisionsDesc, s.Cancelled, "cancel", "")
	counter(outcomesDesc, s.Success, weir.Success.String())
	counter(outcomesDesc, s.Dropped, weir.Dropped.String())
	counter(outcomesDesc, s.Ignored, weir.Ignored.String())
}
