package replay

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/station"
)

// Figures say how requests ended. Times are in seconds; latencies count from the intended start.
type Figures struct {
	Served   float64 `json:"served"` // in time
	Rejected float64 `json:"rejected"`
	Late     float64 `json:"too_late"` // their callers had left before the answer
	Failed   float64 `json:"failed"`   // for reasons that are not load
	Wasted   float64 `json:"wasted"`   // admitted, and their callers had left before the work ended
	P50      float64 `json:"p50"`      // of the served
	P95      float64 `json:"p95"`
	P99      float64 `json:"p99"`
}

// A tally gets requests that have ended.
type tally struct {
	Figures
	latencies [][]time.Duration // of the served, by step of the recording
	turned    []int             // rejected and too late, by step
	came      []int             // by step
	step      time.Duration
}

// steps is the number of points of a curve.
const steps = 60

func newTally(whole time.Duration) *tally {
	return &tally{latencies: make([][]time.Duration, steps), turned: make([]int, steps), came: make([]int, steps), step: whole/steps + 1}
}

// add counts a request that came at an instant of the recording.
func (t *tally) add(at time.Duration, r *recording.Record) {
	i := min(max(int(at/t.step), 0), steps-1)
	t.came[i]++
	switch o := r.Outcome; {
	case o.Success():
		t.Served++
		t.latencies[i] = append(t.latencies[i], r.Latency())
		return
	case o.Rejected(), station.Refused(r):
		t.Rejected++
	case recorded.Abandoned(r):
		t.Late++
		if o.Worked() {
			t.Wasted++
		}
	default:
		t.Failed++
		return
	}
	t.turned[i]++
}

// join adds another tally of the same recording.
func (t *tally) join(o *tally) {
	for i := range o.came {
		t.latencies[i] = append(t.latencies[i], o.latencies[i]...)
		t.turned[i] += o.turned[i]
		t.came[i] += o.came[i]
	}
}

// figures returns the counts and the quantiles.
func (t *tally) figures() Figures {
	var all []time.Duration
	for _, some := range t.latencies {
		all = append(all, some...)
	}
	slices.Sort(all)
	f := t.Figures
	f.P50, f.P95, f.P99 = quantile(all, 0.5), quantile(all, 0.95), quantile(all, 0.99)
	return f
}

// quantile returns a quantile of sorted times in seconds; 0 if there are none.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(math.Ceil(q*float64(len(sorted))))-1, len(sorted)-1)].Seconds()
}

// fields are the figures in the order of the tables.
func (f *Figures) fields() []*float64 {
	return []*float64{&f.Served, &f.Rejected, &f.Late, &f.Failed, &f.Wasted, &f.P50, &f.P95, &f.P99}
}

// summary returns the median, the lowest and the highest of each figure.
func summary(all []Figures) (median, low, high Figures) {
	m, l, h := median.fields(), low.fields(), high.fields()
	for k := range m {
		var xs []float64
		for i := range all {
			xs = append(xs, *all[i].fields()[k])
		}
		slices.Sort(xs)
		*m[k], *l[k], *h[k] = (xs[(len(xs)-1)/2]+xs[len(xs)/2])/2, xs[0], xs[len(xs)-1]
	}
	return median, low, high
}
