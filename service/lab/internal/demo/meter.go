package demo

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/service/lab/internal/origin"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// window is the number of ticks (seconds of the experiment) of a sample: a multiple of
// the service times of the experiments. A busy worker then ends the same number of
// requests in every window, and N = X·R does not depend on where the window begins.
const window = 8

// A meter counts the events of a rig, by ticks. It is safe for concurrent use.
type meter struct {
	mu      sync.Mutex // guards what follows
	ticks   []counts   // a ring
	now     int        // the present tick, from 0
	present int        // requests at the origin
	workers int        // of the origin
	since   time.Time  // present and workers have not changed since
}

// counts are the events of a time.
type counts struct {
	span      time.Duration // length of the time
	byStatus  map[string]int
	successes []time.Duration // at the client
	served    []time.Duration // at the origin
	inflight  time.Duration   // time at the origin, of all requests together
	queued    time.Duration   // the part of inflight without a worker
}

func newMeter(ticks, workers int) *meter {
	return &meter{ticks: make([]counts, ticks+1), workers: workers, since: time.Now()}
}

// advanceLocked adds the time since the last change to the present tick, and returns it.
func (m *meter) advanceLocked() *counts {
	c := &m.ticks[m.now%len(m.ticks)]
	now := time.Now()
	d := now.Sub(m.since)
	c.span += d
	c.inflight += time.Duration(m.present) * d
	c.queued += time.Duration(max(m.present-m.workers, 0)) * d
	m.since = now
	return c
}

func (m *meter) answered(r trace.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.advanceLocked()
	if c.byStatus == nil {
		c.byStatus = map[string]int{}
	}
	c.byStatus[r.Label()]++
	if r.Success() {
		c.successes = append(c.successes, r.Latency())
	}
}

func (m *meter) served(d origin.Done) {
	if d.Status != http.StatusOK {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.advanceLocked()
	c.served = append(c.served, d.End-d.Start)
}

// watch counts the requests that h has not finished. h is the origin, which returns when
// its work ends, also if the client has left.
func (m *meter) watch(h http.Handler) http.Handler {
	change := func(by int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.advanceLocked()
		m.present += by
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		change(1)
		defer change(-1)
		h.ServeHTTP(w, r)
	})
}

func (m *meter) setWorkers(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked()
	m.workers = n
}

// tick ends the present tick and begins the next one.
func (m *meter) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked()
	m.now++
	m.ticks[m.now%len(m.ticks)] = counts{}
}

// sum returns the sum of the last n complete ticks, or of those there are, with the
// latencies sorted. n is at most the number of ticks that the meter remembers.
func (m *meter) sum(n int) counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := counts{byStatus: map[string]int{}}
	for i := max(m.now-n, 0); i < m.now; i++ {
		c := &m.ticks[i%len(m.ticks)]
		for status, n := range c.byStatus {
			sum.byStatus[status] += n
		}
		sum.span += c.span
		sum.inflight += c.inflight
		sum.queued += c.queued
		sum.successes = append(sum.successes, c.successes...)
		sum.served = append(sum.served, c.served...)
	}
	slices.Sort(sum.successes)
	slices.Sort(sum.served)
	return sum
}

// offered returns the requests a second, together and by status.
func (c counts) offered(seconds float64) (all float64, byStatus map[string]float64) {
	byStatus = map[string]float64{}
	for status, n := range c.byStatus {
		byStatus[status] = float64(n) / seconds
		all += byStatus[status]
	}
	return all, byStatus
}

// quantile returns the nearest-rank quantile of sorted real durations, in seconds of
// the experiment, or nil if there are none.
func (s speed) quantile(sorted []time.Duration, q float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	rank := max(int(math.Ceil(q*float64(len(sorted))))-1, 0)
	return new(s.own(sorted[rank]).Seconds())
}
