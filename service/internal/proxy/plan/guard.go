package plan

import "fmt"

// A PressureReport describes the pressure on the processor.
type PressureReport struct {
	Max  float64 `json:"max"`
	Now  float64 `json:"now"`  // the share of the time in which work waited, before the last reading
	Shed float64 `json:"shed"` // the part of all requests that is rejected now
	File string  `json:"file"`
	// Error is why the last reading failed. Meanwhile no more requests are rejected.
	Error string `json:"error,omitempty"`
}

// Pressure describes the pressure; nil without a guard.
func (pl *Plan) Pressure() *PressureReport {
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

// Words describes the part of requests that is rejected; empty if none is.
func (r *PressureReport) Words() string {
	if r == nil || r.Shed == 0 {
		return ""
	}
	return fmt.Sprintf(" While work waits for the processor, %.0f %% of all requests are rejected with 503, the least important first.", 100*r.Shed)
}
