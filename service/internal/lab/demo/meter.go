package demo

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/lab/origin"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// window is the number of ticks (seconds of the experiment) of a sample. At a few
// requests per second, a single second would be too noisy.
const window = 5

// A Sample is the data that the page draws for one instant, in units of the
// experiment. Latencies without requests are absent.
type Sample struct {
	At         float64            `json:"at"` // seconds
	Offered    float64            `json:"offered_rps"`
	Throughput float64            `json:"throughput_rps"`
	Goodput    float64            `json:"goodput_rps"`
	ByStatus   map[string]float64 `json:"by_status"`
	Proxy      *ProxySample       `json:"proxy"` // nil without a proxy
	Origin     OriginSample       `json:"origin"`
	Law        LawSample          `json:"law"`
}

// ProxySample is the proxy's state.
type ProxySample struct {
	Limit     int `json:"limit"`
	Inflight  int `json:"inflight"`
	Waiting   int `json:"waiting"`
	Abandoned int `json:"abandoned"`
}

// OriginSample is the state of the origin, and the requests that it finished.
type OriginSample struct {
	Capacity   float64  `json:"capacity_rps"` // workers / service time
	Throughput float64  `json:"throughput_rps"`
	Inflight   int      `json:"inflight"`
	Waiting    int      `json:"waiting"`
	Avg        *float64 `json:"avg_seconds"`
	P50        *float64 `json:"p50_seconds"`
	P99        *float64 `json:"p99_seconds"`
}

// LawSample has the three terms of Little's law at the origin, measured independently.
// N = X·R holds as long as the queue does not grow.
type LawSample struct {
	N float64  `json:"n"` // in flight and waiting, on average
	X float64  `json:"x"` // finished per second
	R *float64 `json:"r"` // seconds from arrival to finish, on average
}

// A meter counts the events of a rig in the last ticks. It is safe for concurrent use.
type meter struct {
	mu    sync.Mutex // guards what follows
	ticks []counts   // a ring
	now   int        // the present tick, from 0
}

// counts are the events of a time.
type counts struct {
	byStatus  map[string]int
	successes []time.Duration // at the client
	served    []time.Duration // at the origin
	present   []int           // samples of the number of requests at the origin
}

func (m *meter) add(event func(*counts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := &m.ticks[m.now%len(m.ticks)]
	if now.byStatus == nil {
		now.byStatus = map[string]int{}
	}
	event(now)
}

func (m *meter) answered(r trace.Record) {
	m.add(func(c *counts) {
		c.byStatus[r.Label()]++
		if r.Success() {
			c.successes = append(c.successes, r.Latency())
		}
	})
}

func (m *meter) served(d origin.Done) {
	if d.Status == 200 {
		m.add(func(c *counts) { c.served = append(c.served, d.End-d.Start) })
	}
}

// read records the number of requests at the origin. Frequent calls make N precise.
func (m *meter) read(o *origin.Origin) {
	s := o.Stats()
	m.add(func(c *counts) { c.present = append(c.present, s.Inflight+s.Waiting) })
}

// tick begins the next tick. It returns the sum of the last ones, with the latencies
// sorted, and their number.
func (m *meter) tick() (sum counts, ticks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum.byStatus = map[string]int{}
	for _, c := range m.ticks {
		for status, n := range c.byStatus {
			sum.byStatus[status] += n
		}
		sum.successes = append(sum.successes, c.successes...)
		sum.served = append(sum.served, c.served...)
		sum.present = append(sum.present, c.present...)
	}
	slices.Sort(sum.successes)
	slices.Sort(sum.served)
	m.now++
	m.ticks[m.now%len(m.ticks)] = counts{}
	return sum, min(m.now, len(m.ticks))
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

// sample ends a second of the experiment, and returns a sample of the last ones.
func (r *rig) sample(at time.Duration, setup Setup) Sample {
	c, ticks := r.meter.tick()
	seconds := float64(ticks)
	stats := r.origin.Stats()
	s := Sample{
		At: at.Seconds(), Goodput: float64(len(c.successes)) / seconds,
		Origin: OriginSample{
			Capacity: float64(setup.Workers) / setup.ServiceSeconds, Throughput: float64(len(c.served)) / seconds,
			Inflight: stats.Inflight, Waiting: stats.Waiting,
			Avg: r.speed.mean(c.served), P50: r.speed.quantile(c.served, .5), P99: r.speed.quantile(c.served, .99),
		},
	}
	s.Offered, s.ByStatus = c.offered(seconds)
	s.Throughput = s.Goodput // the client does not receive late answers
	s.Law = LawSample{X: s.Origin.Throughput, R: s.Origin.Avg}
	for _, n := range c.present {
		s.Law.N += float64(n) / float64(len(c.present))
	}
	if setup.Proxy != Off {
		p := r.proxy.Stats()
		s.Proxy = &ProxySample{p.Limit, p.Inflight, p.Waiting, p.Abandoned}
	}
	return s
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

// mean is likewise the mean.
func (s speed) mean(durations []time.Duration) *float64 {
	if len(durations) == 0 {
		return nil
	}
	var sum time.Duration
	for _, d := range durations {
		sum += d
	}
	return new(s.own(sum).Seconds() / float64(len(durations)))
}
