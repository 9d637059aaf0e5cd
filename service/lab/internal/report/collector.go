// Package report adds up the requests of a load test. It shows the result as text, as
// JSON, as a page with plots, and as metrics, compares two results, and checks one against
// thresholds.
package report

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A Collector adds up records in bounded memory. It is safe for concurrent
// use.
type Collector struct {
	timeout time.Duration

	mu                              sync.Mutex // guards what follows
	inTime                          int        // successes within the time-out, counted from the intended start
	failed                          int
	byStatus                        map[string]int
	byClass                         map[string]int
	all, succeeded, rejected, delay histogram
	series                          series
}

// maxLabels bounds the number of statuses and reasons, because the server chooses
// them. Further ones are counted as "other".
const maxLabels = 50

// NewCollector returns an empty Collector for requests with this time-out.
func NewCollector(timeout time.Duration) *Collector {
	return &Collector{
		timeout: timeout, byStatus: map[string]int{}, byClass: map[string]int{},
		all: newHistogram(), succeeded: newHistogram(), rejected: newHistogram(), delay: newHistogram(),
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
	c.byClass[class(r)]++
	c.all.add(r.Latency())
	if r.Reason != trace.Unsent {
		c.delay.add(r.Start - r.Intended)
	}
	if r.Failed() {
		c.failed++
	}
	switch {
	case r.Success():
		c.succeeded.add(r.Latency())
		if r.Latency() <= c.timeout {
			c.inTime++
		}
	case r.Rejected():
		c.rejected.add(r.Latency())
	}
	c.series.add(r)
}

// class returns the class of the status, such as 4xx, or that of requests without one.
func class(r trace.Record) string {
	switch {
	case r.Status >= 100 && r.Status < 1000:
		return strconv.Itoa(r.Status/100) + "xx"
	case r.Status != 0:
		return "other"
	case r.Reason == trace.Sent, r.Reason == trace.Unsent, r.Reason == trace.Canceled:
		return r.Reason
	default:
		return "error"
	}
}

// Report returns the results. Elapsed is the time during which requests were sent.
func (c *Collector) Report(elapsed time.Duration) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.summary(elapsed)
	r.ByStatus, r.ByClass = maps.Clone(c.byStatus), maps.Clone(c.byClass)
	l := &r.Latency
	l.All, l.Successes, l.Rejections = c.all.summarize(), c.succeeded.summarize(), c.rejected.summarize()
	r.SendDelay = c.delay.summarize()
	r.Series = c.series.report(elapsed)
	return r
}

// summary has the counts and the rates.
func (c *Collector) summary(elapsed time.Duration) Report {
	r := Report{Elapsed: elapsed.Seconds(), Requests: int(c.all.TotalCount()), Succeeded: int(c.succeeded.TotalCount()), Failed: c.failed}
	if r.Requests > 0 {
		r.FailedShare = float64(r.Failed) / float64(r.Requests)
	}
	if seconds := elapsed.Seconds(); seconds > 0 {
		r.Offered = float64(r.Requests) / seconds
		r.Throughput = float64(r.Succeeded) / seconds
		r.Goodput = float64(c.inTime) / seconds
	}
	return r
}

// Live describes the results so far in a line.
func (c *Collector) Live(elapsed time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.summary(elapsed)
	p99 := "–"
	if r.Succeeded > 0 {
		p99 = table.Seconds(c.succeeded.at(99))
	}
	return r.line() + ", p99 of successes " + p99
}
