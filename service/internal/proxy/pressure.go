package proxy

import (
	"fmt"
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/problem"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/service/internal/proxy/tally"
	"github.com/weir-go/weir/service/internal/settings"
)

var underPressure = problem.New(http.StatusServiceUnavailable, problem.ReducedCapacity, tally.Pressure,
	"work waits for the processor, and a part of the requests is rejected, the least important ones first")

// makeGuard makes the guard of the plan: the present one, if there is one.
func (b *builder) makeGuard() (err error) {
	share := settings.Or(b.rules.MaxPressure, b.proxy.cfg.MaxPressure)
	if share == 0 {
		return nil
	}
	b.maxPressure = share
	if b.old != nil && b.old.guard != nil {
		b.guard = b.old.guard
		b.changes = append(b.changes, func() { _ = b.guard.SetMax(share) }) // it has been checked
		return nil
	}
	b.guard, err = pressure.New(pressure.Config{Max: share, Path: b.proxy.cfg.PressureFile})
	return err
}

// spare reports whether the guard lets a request pass. Otherwise it answers it, and gives back the
// tokens of its rules.
func (p *Proxy) spare(w http.ResponseWriter, r *http.Request, c *class) (pass bool) {
	if c.guard == nil {
		return true
	}
	err := c.guard.Check(weir.ClassOf(r.Context()).Priority)
	switch {
	case err == nil:
		return true
	case c.Shadow:
		c.Counts.CountWouldSpare()
		return true
	}
	c.Counts.CountSpared()
	httplimit.Use(w, 0)
	underPressure.Write(w, r, problem.RetryAfter(admission.Rejection(err).RetryAfter))
	return false
}

// A PressureReport describes the pressure on the processor.
type PressureReport struct {
	Max  float64 `json:"max"`
	Now  float64 `json:"now"`  // the share of the time in which work waited, before the last reading
	Shed float64 `json:"shed"` // the part of all requests that is rejected now
	File string  `json:"file"`
	// Error is why the last reading failed. Meanwhile no more requests are rejected.
	Error string `json:"error,omitempty"`
}

// pressure describes the pressure; nil without a guard.
func (pl *plan) pressure() *PressureReport {
	if pl.guard == nil {
		return nil
	}
	st := pl.guard.Stats()
	r := &PressureReport{Max: pl.maxPressure, Now: st.Pressure, Shed: st.Shed, File: pl.guard.Path()}
	if st.Err != nil {
		r.Error = st.Err.Error()
	}
	return r
}

// words describes the part of requests that is rejected; empty if none is.
func (r *PressureReport) words() string {
	if r == nil || r.Shed == 0 {
		return ""
	}
	return fmt.Sprintf(" While work waits for the processor, %.0f %% of all requests are rejected with 503, the least important first.", 100*r.Shed)
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
	r := p.plan.Load().pressure()
	if r == nil {
		return
	}
	s.Send(pressureNow, r.Now)
	s.Send(pressureMax, r.Max)
	s.Send(pressureShed, r.Shed)
	s.Send(pressureFailed, flag(r.Error != ""))
}
