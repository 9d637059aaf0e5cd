package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/blackbox"
	"github.com/weir-go/weir/service/internal/proxy/condition"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/tally"
)

// seconds are histogram buckets from a refusal to a very slow origin.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// metrics holds a Proxy's metrics. Each Proxy has its own registry, so that several
// can run in one process.
type metrics struct {
	registry     *prometheus.Registry
	origin       prometheus.Histogram
	limitChanges *prometheus.CounterVec
	originErrors *prometheus.CounterVec
	longLived    *prometheus.CounterVec
	longEnded    *prometheus.CounterVec
}

func newMetrics() *metrics {
	registry := prometheus.NewRegistry()
	auto := promauto.With(registry)
	counter := func(name, help, label string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		registry: registry,
		origin: auto.NewHistogram(prometheus.HistogramOpts{Name: "weir_proxy_origin_duration_seconds", Buckets: seconds,
			Help: "Time from the request to the origin until its response header or its failure, while the client waited."}),
		limitChanges: counter("weir_proxy_limit_changes_total", "Changes of the limit, by cause.", "cause"),
		originErrors: counter("weir_proxy_origin_errors_total",
			"Requests that the proxy answered because the origin failed, by reason.", "reason"),
		longLived: counter("weir_proxy_long_lived_total", "Exchanges that left the limit and went on, by reason.", "why"),
		longEnded: counter("weir_proxy_long_lived_ended_total",
			"Long-lived exchanges that were ended, because their address had its share of --long-lived, and the limit was reached, by reason.", "why"),
	}
	for c := limit.Grown; c <= limit.Drain; c++ { // so that a rate has the first change
		m.limitChanges.WithLabelValues(c.String())
	}
	for _, why := range forward.LongLivedNames[1:] {
		m.longLived.WithLabelValues(why)
	}
	return m
}

// An observer is the forward.Observer of a Proxy.
type observer struct {
	*metrics
	watch *condition.Watcher
}

func (o observer) OriginAnswered(after time.Duration, traceID string) {
	if traceID == "" {
		o.origin.Observe(after.Seconds())
		return
	}
	o.origin.(prometheus.ExemplarObserver).ObserveWithExemplar(after.Seconds(), prometheus.Labels{"trace_id": traceID})
}

func (o observer) OriginFailed(reason string, err error) {
	o.watch.NoteFailure(err)
	o.originErrors.WithLabelValues(reason).Inc()
}

func (o observer) LimitLeft(why string) { o.longLived.WithLabelValues(why).Inc() }

func (o observer) ForwardEnded(why string) { o.longEnded.WithLabelValues(why).Inc() }

// The metrics that a scrape reads from Stats.
var (
	limitFamily      = metric.Gauge("weir_proxy_limit", "Requests that may be in flight.")
	inflightFamily   = metric.Gauge("weir_proxy_inflight", "Requests in flight, abandoned ones included.")
	waitingFamily    = metric.Gauge("weir_proxy_waiting", "Requests in the queue.")
	abandonedFamily  = metric.Gauge("weir_proxy_abandoned", "Requests whose client has left, or that went to another origin, and that the origin has not answered; part of weir_proxy_inflight, unless long-lived.")
	longFamily       = metric.Gauge("weir_proxy_long_lived", "Exchanges in progress that do not count as in flight.")
	longMaxFamily    = metric.Gauge("weir_proxy_long_lived_max", "Bound of weir_proxy_long_lived.")
	longFullFamily   = metric.Counter("weir_proxy_long_lived_full_total", "Long-lived exchanges that stayed in flight, because there were too many, or too many of their address.")
	conditionFamily  = metric.Gauge("weir_proxy_condition", "Condition of the origin: 1 for the current one.", "condition")
	signsFamily      = metric.Counter("weir_proxy_signs_total", "Answers of the origin, and missing ones, by what they tell about its load.", "sign")
	connectionFamily = metric.Gauge("weir_proxy_connections", "Connections of clients.")
	decisionsFamily  = metric.Counter("weir_proxy_decisions_total", "Requests by decision and reason.", "decision", "reason")
	originFamily     = metric.Counter("weir_proxy_origin_answers_total", "Answers of each origin, and missing ones, by what they tell about its load.", "origin", "sign")
	originInflight   = metric.Gauge("weir_proxy_origin_inflight", "Requests that each origin works on, long-lived ones included.", "origin")
	originState      = metric.Gauge("weir_proxy_origin_state", "State of each origin: 1 for the current one.", "origin", "state")
	originLimit      = metric.Gauge("weir_proxy_origin_limit", "Requests that may be in flight at each origin, by its adaptive limits.", "origin")
	originLimitMin   = metric.Gauge("weir_proxy_origin_limit_min", "Lower bound of weir_proxy_origin_limit.", "origin")
	originEjected    = metric.Counter("weir_proxy_origin_ejections_total", "Ejections of each origin, by cause.", "origin", "cause")
	originRetried    = metric.Counter("weir_proxy_origin_retried_total", "Requests that went to another origin, because this one did not answer.", "origin")
	waitFamily       = metric.Histogram("weir_proxy_wait_seconds", "Time that admitted requests waited for a permit.")
	wastedFamily     = metric.Counter("weir_proxy_wasted_total", "Admitted requests that ended after their client had left, or their deadline.")
	outcomesFamily   = metric.Counter("weir_proxy_outcomes_total", "Finished requests, by what they tell about load.", "outcome")
)

// Metrics returns the metrics of the proxy.
func (p *Proxy) Metrics() prometheus.Gatherer { return p.metrics.registry }

// registerCollectors registers a collector of the proxy's Stats.
func (m *metrics) registerCollectors(p *Proxy) {
	families := []*metric.Family{limitFamily, inflightFamily, waitingFamily, abandonedFamily, longFamily, longMaxFamily, longFullFamily,
		conditionFamily, signsFamily, connectionFamily, decisionsFamily, outcomesFamily, wastedFamily, waitFamily,
		originFamily, originInflight, originState, originLimit, originLimitMin, originEjected, originRetried}
	m.registry.MustRegister(metric.NewCollector(nil, families, p.collect))
	m.registry.MustRegister(metric.NewCollector(nil, familiesOfFile, p.collectRules))
	m.registry.MustRegister(metric.NewCollector(nil, pressureFamilies, p.collectPressure))
	m.registry.MustRegister(metric.NewCollector(nil, blackbox.Families, p.cfg.Box.Collect))
}

func (p *Proxy) collect(s metric.Scrape) {
	st := p.Stats()
	s.Send(limitFamily, float64(st.Limit))
	s.Send(inflightFamily, float64(st.Inflight))
	s.Send(waitingFamily, float64(st.Waiting))
	s.Send(abandonedFamily, float64(st.Abandoned))
	s.Send(longFamily, float64(st.LongLived))
	forwards := p.forwarder.Stats()
	if forwards.LongMax > 0 {
		s.Send(longMaxFamily, float64(forwards.LongMax))
	}
	s.Send(longFullFamily, float64(forwards.LongFull))
	s.Send(connectionFamily, float64(st.Connections))
	current := p.Status().Condition
	for _, c := range condition.All() {
		v := 0.0
		if c == current {
			v = 1
		}
		s.Send(conditionFamily, v, string(c))
	}
	for sign, n := range forwards.Signs {
		s.Send(signsFamily, float64(n), loadsign.Sign(sign).String())
	}
	for _, o := range st.Origins {
		collectOrigin(s, &o)
	}
	s.SendDecisions(decisionsFamily, st.Stats)
	s.Send(decisionsFamily, float64(p.all.Stats().Refused[tally.Pressure]), "reject", tally.Pressure)
	s.SendOutcomes(outcomesFamily, st.Stats)
	s.Send(wastedFamily, float64(st.Wasted))
	s.With(p.all.Exemplars()).SendHistogram(waitFamily, inflight.WaitBounds[:], st.Waits[:], st.Waited)
}

// collectOrigin sends the metrics of an origin. It leaves out the signs that it has not shown.
func collectOrigin(s metric.Scrape, o *origins.Stats) {
	s.Send(originInflight, float64(o.Inflight), o.URL)
	s.Send(originRetried, float64(o.Retried), o.URL)
	for _, state := range balance.States {
		v := 0.0
		if state == o.State {
			v = 1
		}
		s.Send(originState, v, o.URL, state.String())
	}
	if o.Limit > 0 {
		s.Send(originLimit, float64(o.Limit), o.URL)
		s.Send(originLimitMin, float64(o.MinLimit), o.URL)
	}
	for cause := range o.Ejected {
		if cause := balance.Cause(cause); cause != balance.NoCause {
			s.Send(originEjected, float64(o.Ejected[cause]), o.URL, cause.String())
		}
	}
	for sign, n := range o.Signs {
		if n > 0 {
			s.Send(originFamily, float64(n), o.URL, loadsign.Sign(sign).String())
		}
	}
}
