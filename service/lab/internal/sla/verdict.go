package sla

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An SLA is the service level agreement.
type SLA struct {
	Rate    float64       `json:"rate"`    // that the service has to bear, requests a second
	P95     time.Duration `json:"p95"`     // of the answers with success
	Success float64       `json:"success"` // share of the requests up to Rate, in (0, 1]
}

// Agreed returns the agreement of the source.
func Agreed() SLA { return SLA{Rate: 425, P95: 275 * time.Millisecond, Success: 0.9999} }

func (a SLA) String() string {
	return fmt.Sprintf("%g requests a second, P95 %v, %g %% success", a.Rate, a.P95, 100*a.Success)
}

func (a SLA) validate() error {
	switch {
	case !(a.Rate >= MinRate && a.Rate <= MaxRate):
		return fmt.Errorf("sla: Agreed.Rate = %v: must be in [%v, %d]", a.Rate, MinRate, MaxRate)
	case a.P95 <= 0 || a.P95 > MaxTime:
		return fmt.Errorf("sla: Agreed.P95 = %v: must be in (0s, %v]", a.P95, MaxTime)
	case !(a.Success > 0 && a.Success <= 1):
		return fmt.Errorf("sla: Agreed.Success = %v: must be in (0, 1]", a.Success)
	}
	return nil
}

// A Verdict says whether a row meets the agreement at a rate.
type Verdict struct {
	Pass bool   `json:"pass"`
	Why  string `json:"why,omitempty"` // the figures that break the agreement
	// Few reports that there were too few requests to tell the agreed share of success:
	// one failure is more than it allows.
	Few bool `json:"few,omitempty"`
}

// tolerance is how far the rate of the served requests may be below the agreed one: a
// point has a beginning and an end.
const tolerance = 0.005

// judge compares a point with the agreement. Up to the agreed rate, the agreed share of
// the requests succeeds. At a higher rate, the agreed rate is served.
func (a SLA) judge(p Point) Verdict {
	var why []string
	served := p.Success * p.Rate
	switch {
	case p.Requests == 0:
		why = append(why, "no requests")
	case p.Rate <= a.Rate && p.Success < a.Success:
		why = append(why, fmt.Sprintf("success %.4g %%", 100*p.Success))
	case p.Rate > a.Rate && served < a.Rate*min(a.Success, 1-tolerance):
		why = append(why, fmt.Sprintf("%.4g rps", served))
	}
	if p.Successes.P95 > a.P95 {
		why = append(why, fmt.Sprintf("P95 %s ms", milliseconds(p.Successes.P95)))
	}
	return Verdict{Pass: why == nil, Why: strings.Join(why, ", "), Few: p.Rate <= a.Rate && float64(p.Requests)*(1-a.Success) < 1-1e-9}
}

func (v Verdict) String() string {
	switch {
	case !v.Pass:
		return "FAIL: " + v.Why
	case v.Few:
		return "pass*"
	default:
		return "pass"
	}
}

// summary says for each row at which rates it meets the agreement.
func (r Result) summary() []string {
	lines, few := []string{"The agreement: " + r.Agreed.String() + "."}, 0
	for _, row := range r.rows() {
		met, all := 0, 0
		var broken *Point // at the lowest rate
		for _, p := range r.Points {
			if p.Row != row {
				continue
			}
			all++
			switch {
			case p.Verdict.Pass:
				met++
			case broken == nil || p.Rate < broken.Rate:
				broken = &p
			}
			if p.Verdict.Few {
				few++
			}
		}
		line := fmt.Sprintf("  %s: met at %d of %d rates", row, met, all)
		if broken != nil {
			line += fmt.Sprintf("; the lowest that breaks it is %.4g (%s)", broken.Rate, broken.Verdict.Why)
		}
		lines = append(lines, line)
	}
	if few > 0 {
		lines = append(lines, fmt.Sprintf("* %d points had too few requests to measure %g %% success: --requests sets how many a point has.", few, 100*r.Agreed.Success))
	}
	return lines
}

// rows returns the names of the measured rows.
func (r Result) rows() (names []string) {
	for _, p := range r.Points {
		if !slices.Contains(names, p.Row) {
			names = append(names, p.Row)
		}
	}
	return names
}
