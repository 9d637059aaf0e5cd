package sla

import (
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/lab/trace"
)

// A tally adds up one row at one rate. It counts the requests with an intended start
// between two instants, and for the goodput the requests that ended between them. It is
// safe for concurrent use.
type tally struct {
	from, to time.Duration

	mu                       sync.Mutex // guards what follows
	served                   int
	all, successes, failures []time.Duration // from the intended start
	refusals, refusing       []time.Duration // from the actual start, and at the server
	sending                  []time.Duration
}

func (c Config) newTally(rate float64) *tally {
	whole := c.point(rate)
	return &tally{from: whole / 5, to: whole}
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
	t.all = append(t.all, r.Latency())
	t.sending = append(t.sending, r.Start-r.Intended)
	if r.Success() {
		t.successes = append(t.successes, r.Latency())
		return
	}
	t.failures = append(t.failures, r.Latency())
	if r.Rejected() {
		t.refusals = append(t.refusals, r.End-r.Start)
	}
}

// answered records the end of a request at the server.
func (t *tally) answered(began, took time.Duration, status int) {
	if (trace.Record{Status: status}).Rejected() && t.within(began) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.refusing = append(t.refusing, took)
	}
}

func (t *tally) point(row string, rate float64) Point {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Point{
		Row: row, Rate: rate, Requests: len(t.all), Goodput: float64(t.served) / (t.to - t.from).Seconds(),
		All: quantiles(t.all), Successes: quantiles(t.successes), Failures: quantiles(t.failures),
		Refusals: quantiles(t.refusals), Refusing: quantiles(t.refusing), Sending: quantiles(t.sending),
	}
	if len(t.all) > 0 {
		p.Success = float64(len(t.successes)) / float64(len(t.all))
	}
	return p
}

// quantiles sorts the durations.
func quantiles(all []time.Duration) Latency {
	if len(all) == 0 {
		return Latency{}
	}
	slices.Sort(all)
	// The nearest rank.
	at := func(percent int) time.Duration { return all[(len(all)*percent+99)/100-1] }
	return Latency{Count: len(all), P50: at(50), P95: at(95), P99: at(99), Max: at(100)}
}
