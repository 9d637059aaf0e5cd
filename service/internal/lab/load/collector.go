package load

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weir-go/weir/service/internal/lab/trace"
)

// A Collector adds up records in bounded memory. It is safe for concurrent
// use.
type Collector struct {
	timeout time.Duration

	mu        sync.Mutex // guards what follows
	requests  int
	successes int
	inTime    int // successes within the time-out, counted from the intended start
	byStatus  map[string]int
	groups    [3]*hdrhistogram.Histogram // latencies, in microseconds
}

const (
	all = iota
	succeeded
	rejected
)

// maxLabels bounds the number of statuses and reasons, because the server chooses
// them. Further ones are counted as "other".
const maxLabels = 50

// NewCollector returns an empty Collector for requests with this time-out.
func NewCollector(timeout time.Duration) *Collector {
	c := &Collector{timeout: timeout, byStatus: map[string]int{}}
	for i := range c.groups {
		// From 1 µs to an hour, to three significant digits.
		c.groups[i] = hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	}
	return c
}

// Add counts a record.
func (c *Collector) Add(r trace.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	label := r.Label()
	if _, known := c.byStatus[label]; !known && len(c.byStatus) >= maxLabels {
		label = "other"
	}
	c.byStatus[label]++
	latency := r.Latency()
	c.note(all, latency)
	if r.Success() {
		c.note(succeeded, latency)
		c.successes++
		if latency <= c.timeout {
			c.inTime++
		}
	} else if r.Rejected() {
		c.note(rejected, latency)
	}
}

func (c *Collector) note(group int, latency time.Duration) {
	us := min(max(latency.Microseconds(), 1), time.Hour.Microseconds())
	if err := c.groups[group].RecordValue(us); err != nil {
		panic(fmt.Sprintf("load: %v", err)) // us is within the histogram's range
	}
}

// Report returns the results. Elapsed is the time during which requests were sent.
func (c *Collector) Report(elapsed time.Duration) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	seconds := elapsed.Seconds()
	rate := func(n int) float64 {
		if seconds <= 0 {
			return 0
		}
		return float64(n) / seconds
	}
	r := Report{
		Elapsed: seconds, Requests: c.requests,
		Offered: rate(c.requests), Throughput: rate(c.successes), Goodput: rate(c.inTime),
		ByStatus: make(map[string]int, len(c.byStatus)),
		Latency: Groups{
			All: summarize(c.groups[all]), Successes: summarize(c.groups[succeeded]), Rejections: summarize(c.groups[rejected]),
		},
	}
	for label, n := range c.byStatus {
		r.ByStatus[label] = n
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
