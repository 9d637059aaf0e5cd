package sla

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weir-go/weir/service/internal/lab/trace"
)

// A tally adds up one row at one rate. It counts the requests with an intended start
// between two instants, and for the goodput the requests that ended between them. It is
// safe for concurrent use.
type tally struct {
	from, to time.Duration

	mu                                 sync.Mutex // guards what follows
	requests, good, served             int
	all, successes, failures, refusals *hdrhistogram.Histogram
	refusing, sending                  *hdrhistogram.Histogram
}

// longest is the highest value of the histograms, in nanoseconds.
const longest = int64(time.Hour)

func newTally(from, to time.Duration) *tally {
	h := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, 3) }
	return &tally{from: from, to: to, all: h(), successes: h(), failures: h(), refusals: h(), refusing: h(), sending: h()}
}

func note(h *hdrhistogram.Histogram, d time.Duration) {
	if err := h.RecordValue(min(max(int64(d), 0), longest)); err != nil {
		panic("sla: " + err.Error()) // it is within the histogram's range
	}
}

func (t *tally) within(at time.Duration) bool { return at >= t.from && at < t.to }

// add records the end of a request at the client.
func (t *tally) add(r trace.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Success() && t.within(r.End) {
		t.served++
	}
	if !t.within(r.Intended) {
		return
	}
	t.requests++
	note(t.all, r.Latency())
	note(t.sending, r.Start-r.Intended)
	if r.Success() {
		t.good++
		note(t.successes, r.Latency())
		return
	}
	note(t.failures, r.Latency())
	if refused(r.Status) {
		note(t.refusals, r.End-r.Start)
	}
}

// answered records the end of a request at the server.
func (t *tally) answered(began, took time.Duration, status int) {
	if !refused(status) || !t.within(began) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	note(t.refusing, took)
}

func (t *tally) point(row string, rate float64) Point {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Point{
		Row: row, Rate: rate, Requests: t.requests, Goodput: float64(t.served) / (t.to - t.from).Seconds(),
		All: quantiles(t.all), Successes: quantiles(t.successes), Failures: quantiles(t.failures),
		Refusals: quantiles(t.refusals), Refusing: quantiles(t.refusing), Sending: quantiles(t.sending),
	}
	if t.requests > 0 {
		p.Success = float64(t.good) / float64(t.requests)
	}
	return p
}

func quantiles(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return Latency{Count: h.TotalCount(), P50: at(50), P95: at(95), P99: at(99), Max: time.Duration(h.Max())}
}
