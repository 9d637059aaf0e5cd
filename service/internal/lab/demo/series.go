package demo

import (
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/lab/origin"
	"github.com/weir-go/weir/service/internal/lab/trace"
	"github.com/weir-go/weir/service/internal/proxy"
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

// A series counts the events of a rig, and makes samples of the last ticks.
type series struct {
	speed speed

	mu      sync.Mutex
	buckets [window]bucket // a ring
	now     int            // the bucket of the present tick
	filled  int            // buckets that hold a whole tick
}

// A bucket has the counts of one tick.
type bucket struct {
	byStatus  map[string]int
	successes int
	origin    []time.Duration
	present   []int // samples of the number of requests at the origin
}

func newSeries(s speed) *series {
	t := &series{speed: s}
	t.buckets[0] = bucket{byStatus: map[string]int{}}
	return t
}

func (t *series) answered(r trace.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &t.buckets[t.now]
	b.byStatus[r.Label()]++
	if r.Success() {
		b.successes++
	}
}

func (t *series) served(d origin.Done) {
	if d.Status != 200 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &t.buckets[t.now]
	b.origin = append(b.origin, d.End-d.Start)
}

// read records the number of requests at the origin. Frequent calls make N precise.
func (t *series) read(o *origin.Origin) {
	s := o.Stats()
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &t.buckets[t.now]
	b.present = append(b.present, s.Inflight+s.Waiting)
}

// tick ends a second of the experiment, and returns a sample of the last ticks.
func (t *series) tick(at time.Duration, setup Setup, o *origin.Origin, p *proxy.Stats) Sample {
	s := Sample{At: at.Seconds(), ByStatus: map[string]float64{}}
	s.Origin.Capacity = float64(setup.Workers) / setup.ServiceTime.Seconds()
	if p != nil {
		s.Proxy = &ProxySample{p.Limit, p.Inflight, p.Waiting, p.Abandoned}
	}
	os := o.Stats()
	s.Origin.Inflight, s.Origin.Waiting = os.Inflight, os.Waiting

	t.mu.Lock()
	defer t.mu.Unlock()
	t.filled = min(t.filled+1, window)
	seconds := float64(t.filled)
	var latencies []time.Duration
	var present []int
	for _, b := range t.buckets {
		for status, n := range b.byStatus {
			s.ByStatus[status] += float64(n) / seconds
			s.Offered += float64(n) / seconds
		}
		s.Goodput += float64(b.successes) / seconds
		latencies = append(latencies, b.origin...)
		present = append(present, b.present...)
	}
	s.Throughput = s.Goodput // the client does not receive late answers
	s.Origin.Throughput = float64(len(latencies)) / seconds
	slices.Sort(latencies)
	s.Origin.P50, s.Origin.P99 = quantile(t.speed, latencies, .5), quantile(t.speed, latencies, .99)
	s.Origin.Avg = t.mean(latencies)
	s.Law = LawSample{X: s.Origin.Throughput, R: s.Origin.Avg}
	for _, n := range present {
		s.Law.N += float64(n) / float64(len(present))
	}
	t.now = (t.now + 1) % window
	t.buckets[t.now] = bucket{byStatus: map[string]int{}}
	return s
}

func (t *series) mean(ds []time.Duration) *float64 {
	if len(ds) == 0 {
		return nil
	}
	var sum time.Duration
	for _, d := range ds {
		sum += d
	}
	v := t.speed.own(sum).Seconds() / float64(len(ds))
	return &v
}
