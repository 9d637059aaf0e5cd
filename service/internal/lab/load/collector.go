package load

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weir-go/weir/service/internal/lab/trace"
)

// A Collector adds up records in bounded memory. It is safe for concurrent
// use.
type Collector struct {
	timeout time.Duration

	mu                       sync.Mutex // guards what follows
	inTime                   int        // successes within the time-out, counted from the intended start
	byStatus                 map[string]int
	all, succeeded, rejected *hdrhistogram.Histogram // latencies, in microseconds
}

// maxLabels bounds the number of statuses and reasons, because the server chooses
// them. Further ones are counted as "other".
const maxLabels = 50

// NewCollector returns an empty Collector for requests with this time-out.
func NewCollector(timeout time.Duration) *Collector {
	// From 1 µs to an hour, to three significant digits.
	latencies := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Hour.Microseconds(), 3) }
	return &Collector{
		timeout: timeout, byStatus: map[string]int{}, all: latencies(), succeeded: latencies(), rejected: latencies(),
	}
}

// Add counts a record.
func (c *Collector) Add(r trace.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	label := r.Label()
	if _, known := c.byStatus[label]; !known && len(c.byStatus) >= maxLabels {
		label = "other"
	}
	c.byStatus[label]++
	groups := []*hdrhistogram.Histogram{c.all}
	switch {
	case r.Success():
		groups = append(groups, c.succeeded)
		if r.Latency() <= c.timeout {
			c.inTime++
		}
	case r.Rejected():
		groups = append(groups, c.rejected)
	}
	for _, g := range groups {
		if err := g.RecordValue(min(max(r.Latency().Microseconds(), 1), time.Hour.Microseconds())); err != nil {
			panic(fmt.Sprintf("load: %v", err)) // the value is within the range
		}
	}
}

// Report returns the results. Elapsed is the time during which requests were sent.
func (c *Collector) Report(elapsed time.Duration) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	seconds := elapsed.Seconds()
	r := Report{
		Elapsed: seconds, Requests: int(c.all.TotalCount()), ByStatus: maps.Clone(c.byStatus),
	}
	l := &r.Latency
	l.All, l.Successes, l.Rejections = summarize(c.all), summarize(c.succeeded), summarize(c.rejected)
	if seconds > 0 {
		r.Offered = float64(r.Requests) / seconds
		r.Throughput = float64(c.succeeded.TotalCount()) / seconds
		r.Goodput = float64(c.inTime) / seconds
	}
	return r
}

// summarize returns nil for an empty histogram.
func summarize(h *hdrhistogram.Histogram) *Latency {
	n := h.TotalCount()
	if n == 0 {
		return nil
	}
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e6 }
	return &Latency{
		Count: n, Mean: h.Mean() / 1e6, P50: at(50), P95: at(95), P99: at(99), Max: float64(h.Max()) / 1e6,
	}
}
