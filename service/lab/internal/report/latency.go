package report

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is a summary in seconds, to three significant digits.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P75   float64 `json:"p75"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99.9"`
	P9999 float64 `json:"p99.99"`
	Max   float64 `json:"max"`
	// HDR is the whole histogram, in microseconds, as HdrHistogram writes it: V2,
	// compressed, base64.
	HDR string `json:"hdr"`

	histogram histogram
}

// percentiles are the percentiles of the tables.
var percentiles = []float64{50, 75, 90, 95, 99, 99.9, 99.99}

// At returns a percentile in seconds.
func (l *Latency) At(percentile float64) float64 { return l.histogram.at(percentile) }

// known reports whether there are enough requests for a percentile: one or more above it.
func (l *Latency) known(percentile float64) bool {
	return float64(l.Count)*(100-percentile) >= 100-1e-6
}

// A histogram has latencies from 1 µs to an hour, to three significant digits.
type histogram struct{ *hdrhistogram.Histogram }

const (
	maxLatency = time.Hour
	digits     = 3
)

func newHistogram() histogram {
	return histogram{hdrhistogram.New(1, maxLatency.Microseconds(), digits)}
}

func (h histogram) add(d time.Duration) {
	if err := h.RecordValue(micros(d)); err != nil {
		panic(fmt.Sprintf("report: %v", err)) // micros is within the range
	}
}

// micros moves latencies into the range of a histogram.
func micros(d time.Duration) int64 { return min(max(d.Microseconds(), 1), maxLatency.Microseconds()) }

// at returns a percentile in seconds.
func (h histogram) at(percentile float64) float64 {
	return float64(h.ValueAtPercentile(percentile)) / 1e6
}

// summarize returns nil for an empty histogram.
func (h histogram) summarize() *Latency {
	if h.TotalCount() == 0 {
		return nil
	}
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(fmt.Sprintf("report: %v", err)) // memory only
	}
	h = histogram{h.Clone()}
	return &Latency{
		Count: h.TotalCount(), Mean: h.Mean() / 1e6, Min: float64(h.Min()) / 1e6, Max: float64(h.Max()) / 1e6, HDR: string(encoded), histogram: h,
		P50: h.at(50), P75: h.at(75), P90: h.at(90), P95: h.at(95), P99: h.at(99), P999: h.at(99.9), P9999: h.at(99.99),
	}
}

// decode reads HDR, and computes the other fields from it.
func (l *Latency) decode() error {
	sparse, err := hdrhistogram.DecodePacked([]byte(l.HDR))
	if err != nil {
		return fmt.Errorf("hdr: %w", err)
	}
	h := newHistogram()
	if sparse.MergeInto(h.Histogram) > 0 || h.TotalCount() != l.Count || l.Count <= 0 {
		return fmt.Errorf("hdr: it has %d latencies from 1 µs to %v: want count = %d", h.TotalCount(), maxLatency, l.Count)
	}
	*l = *h.summarize()
	return nil
}

// A bar is a range of latencies, and how many requests had one.
type bar struct {
	from, to float64 // seconds
	count    int64
	tail     bool // the last one, which ends at the maximum
}

// bars divides the latencies into at most 16 ranges of the same width up to the 99th
// percentile, and one beyond. A range is a hundredth of that percentile wide or more, so
// that its bounds differ in three digits.
func (l *Latency) bars() (bars []bar) {
	step := niceStep(max((l.At(99)-l.Min)/15, l.At(99)/100))
	at := func(seconds float64) int { return int(seconds/step + 1e-9) }
	first, last := -1, at(l.At(99))+1
	for _, b := range l.histogram.Distribution() {
		if b.Count == 0 {
			continue
		}
		i := min(at(float64(b.To)/1e6), last)
		if first < 0 {
			first = i
		}
		for first+len(bars) <= i {
			n := first + len(bars)
			from := float64(n) * step
			bars = append(bars, bar{from: from, to: from + step, tail: n == last})
		}
		bars[i-first].count += b.Count
	}
	if b := &bars[len(bars)-1]; b.tail {
		b.to = max(l.Max, b.from)
	}
	return bars
}

// niceStep returns the least number >= x that is 1, 2 or 5 times a power of ten
// microseconds.
func niceStep(x float64) float64 {
	step := 1e-6
	for i := 0; step < x*(1-1e-9); i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	return step
}

// Percentiles writes the percentiles of the successes, in milliseconds, in the format that
// HdrHistogram's plotters read.
func (r Report) Percentiles(w io.Writer) error {
	l, _ := r.answered()
	if l == nil {
		return errors.New("there are no requests")
	}
	_, err := l.histogram.PercentilesPrint(w, 5, 1000)
	return err
}
