package report_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// Over time: a stall shows in the slots in which the requests were due, and failures where
// they ended.
func TestSeries(t *testing.T) {
	r := collect(10_000, 100*s, func(i int) (time.Duration, int, string) {
		switch due := time.Duration(i) * 10 * ms; {
		case due >= 40*s && due < 50*s:
			return 60*s - due, 200, ""
		case i%10 == 0:
			return 5 * s, 0, trace.Timeout
		default:
			return 10 * ms, 200, ""
		}
	})
	if len(r.Series) < 60 || len(r.Series) > 128 {
		t.Fatalf("%d slots: want at most 128", len(r.Series))
	}
	for _, slot := range r.Series {
		if slot.At < 99 {
			near(t, fmt.Sprint("offered at ", slot.At), slot.Offered, 100)
		}
		stalled := slot.At >= 40 && slot.At+slot.Length <= 50
		if slot.At > 52 && slot.At < 99 || slot.At > 1 && slot.At+slot.Length < 40 {
			near(t, fmt.Sprint("p99 at ", slot.At), math.Round(slot.P99*100)/100, 0.01)
		}
		if stalled && (slot.P50 < 60-slot.At-slot.Length-0.5 || slot.P50 > (60-slot.At)*1.01) {
			t.Errorf("at %v: p50 %v: want about %v", slot.At, slot.P50, 60-slot.At)
		}
		if slot.At > 60 && slot.At < 99 || slot.At > 5 && slot.At+slot.Length < 40 {
			if slot.Failed < 8 || slot.Failed > 12 {
				t.Errorf("at %v: %v failed a second: want 10", slot.At, slot.Failed)
			}
		}
	}
}

// A series of any length has a bounded number of slots, and keeps all requests.
func TestSeriesIsBounded(t *testing.T) {
	for _, over := range []time.Duration{ms, s, time.Hour, 1000 * time.Hour} {
		r := collect(3000, over, ok(ms))
		sum := 0.0
		for _, slot := range r.Series {
			sum += slot.Offered * slot.Length
		}
		if len(r.Series) == 0 || len(r.Series) > 128 || math.Abs(sum-3000) > 60 { // a short slot at the end is left out
			t.Errorf("%v: %d slots with %v requests: want at most 128, and 3000", over, len(r.Series), sum)
		}
	}
	if r := report.NewCollector(s).Report(s); len(r.Series) != 0 {
		t.Errorf("%v: of nothing", r.Series)
	}
}
