package report

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A Slot has the requests of a stretch of the run. Requests are counted as offered, and
// latencies, where a request was due; answers and failures where they ended.
type Slot struct {
	At        float64 `json:"at"`     // its beginning, in seconds
	Length    float64 `json:"length"` // in seconds
	Offered   float64 `json:"offered_rps"`
	Succeeded float64 `json:"succeeded_rps"`
	Rejected  float64 `json:"rejected_rps"`
	Failed    float64 `json:"failed_rps"` // without the rejected ones
	// Latencies of the successes, in seconds. 0 if there were none.
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// validate returns an error about a field that no run has.
func (s Slot) validate() error {
	const most = 1e12
	for _, v := range []float64{s.At, s.Length, s.Offered, s.Succeeded, s.Rejected, s.Failed, s.P50, s.P95, s.P99, s.Max} {
		if v < 0 || v > most {
			return fmt.Errorf("%v: must be in [0, %v]", v, most)
		}
	}
	return nil
}

// A series counts over time, in slots of the same length. When it has maxSlots, the length
// doubles.
type series struct {
	step  time.Duration
	slots []slot
}

type slot struct {
	offered, succeeded, rejected, failed int
	latency                              *hdrhistogram.PackedHistogram // of successes; nil if there are none
}

const (
	firstStep = 100 * time.Millisecond
	maxSlots  = 256
)

// slot returns the slot of an instant.
func (s *series) slot(at time.Duration) *slot {
	if s.step == 0 {
		s.step = firstStep
	}
	at = max(at, 0)
	for at/s.step >= maxSlots {
		s.slots, s.step = merge(s.slots, 2), 2*s.step
	}
	for len(s.slots) <= int(at/s.step) {
		s.slots = append(s.slots, slot{})
	}
	return &s.slots[at/s.step]
}

func (s *series) add(r trace.Record) {
	due := s.slot(r.Intended)
	due.offered++
	if r.Success() {
		if due.latency == nil {
			due.latency = hdrhistogram.NewPacked(1, maxLatency.Microseconds(), 2)
		}
		_ = due.latency.RecordValue(micros(r.Latency())) // it is within the range
	}
	switch end := s.slot(r.End); {
	case r.Success():
		end.succeeded++
	case r.Rejected():
		end.rejected++
	case r.Failed():
		end.failed++
	}
}

// merge adds up n neighbours each.
func merge(slots []slot, n int) []slot {
	merged := make([]slot, 0, (len(slots)+n-1)/n)
	for i, s := range slots {
		if i%n == 0 {
			merged = append(merged, slot{})
		}
		m := &merged[len(merged)-1]
		m.offered += s.offered
		m.succeeded += s.succeeded
		m.rejected += s.rejected
		m.failed += s.failed
		switch {
		case m.latency == nil && s.latency != nil:
			m.latency = s.latency.Clone()
		case s.latency != nil:
			m.latency.Merge(s.latency)
		}
	}
	return merged
}

// fewest is the number of requests that a reported slot has on average, if there can be
// several slots.
const fewest = 50

// report returns at most maxSlots/2 slots, which begin before elapsed.
func (s *series) report(elapsed time.Duration) (report []Slot) {
	slots, step, requests := s.slots, s.step, 0
	for _, slot := range slots {
		requests += slot.offered
	}
	for len(slots) > maxSlots/2 || len(slots) > 20 && requests < fewest*len(slots) {
		slots, step = merge(slots, 2), 2*step
	}
	for i, one := range slots {
		at := time.Duration(i) * step
		if at >= elapsed {
			break
		}
		length := min(step, elapsed-at)
		if len(report) > 0 && length < step/10 { // too short for a rate
			break
		}
		rate := func(n int) float64 { return float64(n) / length.Seconds() }
		r := Slot{
			At: at.Seconds(), Length: length.Seconds(),
			Offered: rate(one.offered), Succeeded: rate(one.succeeded), Rejected: rate(one.rejected), Failed: rate(one.failed),
		}
		if l := one.latency; l != nil {
			quantile := func(p float64) float64 { return float64(l.ValueAtPercentile(p)) / 1e6 }
			r.P50, r.P95, r.P99, r.Max = quantile(50), quantile(95), quantile(99), float64(l.Max())/1e6
		}
		report = append(report, r)
	}
	return report
}
