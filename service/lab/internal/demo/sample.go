package demo

// A Sample has the numbers of the last window, in units of the experiment. The page draws
// and prints each number from here, so that all places that show it agree. Latencies
// without requests are absent.
type Sample struct {
	At       float64            `json:"at"`              // seconds
	Phase    Phase              `json:"phase,omitempty"` // of the tour; empty outside of it
	Offered  float64            `json:"offered_rps"`
	Goodput  float64            `json:"goodput_rps"` // answered with success within the time-out of the client
	ByStatus map[string]float64 `json:"by_status"`
	Proxy    *ProxySample       `json:"proxy"` // nil without a proxy
	Origin   OriginSample       `json:"origin"`
}

// ProxySample is the proxy's state.
type ProxySample struct {
	Limit     int `json:"limit"`
	Waiting   int `json:"waiting"`
	Abandoned int `json:"abandoned"`
}

// OriginSample has the three terms of Little's law at the origin, over the window, and
// what they consist of. R is the time that all requests spent there, divided by the
// requests that it finished. N = X·R holds in every window. If the queue neither grows nor
// shrinks, R is also the average latency of the requests.
type OriginSample struct {
	Capacity float64  `json:"capacity_rps"`   // workers / service time
	N        float64  `json:"inflight"`       // requests at the origin, on average
	Queued   float64  `json:"queued"`         // the part of N without a worker
	X        float64  `json:"throughput_rps"` // finished per second
	R        *float64 `json:"residence_seconds"`
	P50      *float64 `json:"p50_seconds"` // latency of the finished requests
	P99      *float64 `json:"p99_seconds"`
}

// sample ends a second of the experiment, and returns a sample of the last ones, without
// its time.
func (r *rig) sample(setup Setup) Sample {
	r.meter.tick()
	c := r.meter.sum(window)
	seconds := r.speed.own(c.span).Seconds()
	s := Sample{Goodput: float64(len(c.successes)) / seconds, Origin: r.originSample(c, setup)}
	s.Offered, s.ByStatus = c.offered(seconds)
	if setup.Proxy != Off {
		p := r.proxy.Stats()
		s.Proxy = &ProxySample{p.Limit, p.Waiting, p.Abandoned}
	}
	return s
}

func (r *rig) originSample(c counts, setup Setup) OriginSample {
	o := OriginSample{
		Capacity: setup.capacity(),
		N:        c.inflight.Seconds() / c.span.Seconds(),
		Queued:   c.queued.Seconds() / c.span.Seconds(),
		X:        float64(len(c.served)) / r.speed.own(c.span).Seconds(),
		P50:      r.speed.quantile(c.served, .5), P99: r.speed.quantile(c.served, .99),
	}
	if n := len(c.served); n > 0 {
		o.R = new(r.speed.own(c.inflight).Seconds() / float64(n))
	}
	return o
}
