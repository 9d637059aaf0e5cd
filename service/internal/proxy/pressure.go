package proxy

import (
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/problem"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/plan"
	"github.com/weir-go/weir/service/internal/proxy/tally"
)

var underPressure = problem.New(http.StatusServiceUnavailable, problem.ReducedCapacity, tally.Pressure,
	"work waits for the processor, and a part of the requests is rejected, the least important ones first")

// spare reports whether the guard lets a request pass. Otherwise it answers it, and gives back the
// tokens of its rules.
func (p *Proxy) spare(w http.ResponseWriter, r *http.Request, c *plan.Class, q *forward.Request) (pass bool) {
	if c.Guard == nil {
		return true
	}
	err := c.Guard.Check(weir.ClassOf(r.Context()).Priority)
	switch {
	case err == nil:
		return true
	case c.Shadow:
		c.Counts.CountWouldSpare()
		return true
	}
	c.Counts.CountSpared()
	p.forwarder.Record(r.Context(), q, err)
	httplimit.Use(w, 0)
	underPressure.Write(w, r, problem.RetryAfter(admission.Rejection(err).RetryAfter))
	return false
}

// The metrics of the guard. Without one, they are not there.
var (
	pressureNow      = metric.Gauge("weir_proxy_pressure_ratio", "Share of the time in which work waited for the processor.")
	pressureMax      = metric.Gauge("weir_proxy_pressure_max_ratio", "The share above which requests are rejected.")
	pressureShed     = metric.Gauge("weir_proxy_pressure_shed_ratio", "Part of all requests that is rejected because of the pressure.")
	pressureFailed   = metric.Gauge("weir_proxy_pressure_failed", "Whether the last reading of the pressure failed.")
	pressureFamilies = []*metric.Family{pressureNow, pressureMax, pressureShed, pressureFailed}
)

func (p *Proxy) collectPressure(s metric.Scrape) {
	r := p.plan.Load().Pressure()
	if r == nil {
		return
	}
	s.Send(pressureNow, r.Now)
	s.Send(pressureMax, r.Max)
	s.Send(pressureShed, r.Shed)
	s.Send(pressureFailed, flag(r.Error != ""))
}
