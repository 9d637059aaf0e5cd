package limit_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A plant is a service under a limit that is always fully used, unless demand
// says otherwise: so many servers, first come first served.
type plant struct {
	alg     limit.Algorithm
	rng     *rand.Rand
	now     time.Duration
	servers int
	mean    time.Duration
	shape   string                                                 // of the service time: "constant", "exponential"
	demand  int                                                    // units in flight at most, if not 0
	outcome func(limit.Sample) weir.Outcome                        // if not nil
	free    instants                                               // when each server will be
	flight  flights                                                // by end
	seen    func(now time.Duration, was, limit int, c limit.Cause) // of every change
	done    int
}

func newPlant(alg limit.Algorithm, servers int, mean time.Duration) *plant {
	return &plant{alg: alg, rng: rand.New(rand.NewPCG(1, 2)), servers: servers, mean: mean}
}

func auto(t testing.TB, cfg limit.AutoConfig) *limit.Auto {
	t.Helper()
	a, err := limit.NewAuto(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// run serves n pieces of work.
func (p *plant) run(n int) *plant {
	for range n {
		most := p.alg.Limit()
		if p.demand > 0 {
			most = min(most, p.demand)
		}
		for len(p.flight) < most {
			p.admit()
		}
		p.finish()
	}
	return p
}

// trips serves so many times the limit, one round trip after the other.
func (p *plant) trips(n int) *plant {
	for range n {
		p.run(max(p.alg.Limit(), 1))
	}
	return p
}

func (p *plant) admit() {
	for len(p.free) < p.servers {
		heap.Push(&p.free, p.now)
	}
	for len(p.free) > p.servers {
		heap.Pop(&p.free)
	}
	took := p.mean
	if p.shape == "exponential" {
		took = time.Duration(p.rng.ExpFloat64() * float64(p.mean))
	}
	begin := max(p.now, p.free[0])
	p.free[0] = begin + took
	heap.Fix(&p.free, 0)
	heap.Push(&p.flight, limit.Sample{Start: p.now, End: begin + took, Inflight: len(p.flight) + 1})
}

func (p *plant) finish() {
	s := heap.Pop(&p.flight).(limit.Sample)
	p.now = s.End
	s.Outcome = weir.Success
	if p.outcome != nil {
		s.Outcome = p.outcome(s)
	}
	was := p.alg.Limit()
	cause := p.alg.Observe(s)
	if p.seen != nil && cause != limit.Kept {
		p.seen(p.now, was, p.alg.Limit(), cause)
	}
	p.done++
}

type instants []time.Duration

func (h instants) Len() int           { return len(h) }
func (h instants) Less(i, j int) bool { return h[i] < h[j] }
func (h instants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *instants) Push(x any)        { *h = append(*h, x.(time.Duration)) }
func (h *instants) Pop() any          { return pop((*[]time.Duration)(h)) }

type flights []limit.Sample

func (h flights) Len() int           { return len(h) }
func (h flights) Less(i, j int) bool { return h[i].End < h[j].End }
func (h flights) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *flights) Push(x any)        { *h = append(*h, x.(limit.Sample)) }
func (h *flights) Pop() any          { return pop((*[]limit.Sample)(h)) }

func pop[T any](s *[]T) T {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

func (p *plant) wantLimit(t *testing.T, low, high int) {
	t.Helper()
	if n := p.alg.Limit(); n < low || n > high {
		t.Errorf("after %d, at %v: limit %d: want %d to %d", p.done, p.now, n, low, high)
	}
}

// wantMean looks at the limit for some round trips, on average: a trial may be
// going on at any instant.
func (p *plant) wantMean(t *testing.T, trips int, low, high float64) {
	t.Helper()
	sum := 0
	for range trips {
		p.trips(1)
		sum += p.alg.Limit()
	}
	if mean := float64(sum) / float64(trips); mean < low || mean > high {
		t.Errorf("after %d, at %v: limit %.1f on average: want %v to %v", p.done, p.now, mean, low, high)
	}
}

// From one to ten thousand at once, from a tenth of a millisecond to minutes,
// and wherever it starts: it finds what the service can do at once.
func TestAutoFinds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		initial int
		servers int
		mean    time.Duration
		shape   string
		trips   int // round trips at most
		spread  float64
	}{
		{"one", 0, 1, time.Millisecond, "constant", 200, 0},
		{"one, exponential", 0, 1, time.Millisecond, "exponential", 2000, 4},
		{"the ten slots", 0, 10, 5 * time.Millisecond, "constant", 100, 0.1},
		{"the ten slots, from far above", 50, 10, 5 * time.Millisecond, "constant", 200, 0.1},
		{"the ten slots, exponential", 0, 10, 5 * time.Millisecond, "exponential", 2000, 1},
		{"seven that take minutes", 0, 7, 3 * time.Minute, "constant", 40, 0.25},
		{"seven that take minutes, from one", 1, 7, 3 * time.Minute, "constant", 40, 0.2},
		{"a hundred", 0, 100, 100 * time.Microsecond, "exponential", 1600, 0.6},
		{"a thousand, from one", 1, 1000, 20 * time.Millisecond, "constant", 200, 0.2},
		{"nearly ten thousand", 0, 9000, time.Millisecond, "exponential", 200, 0.2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlant(auto(t, limit.AutoConfig{Initial: tt.initial}), tt.servers, tt.mean)
			p.shape = tt.shape
			knee := float64(tt.servers)
			p.trips(tt.trips*3/4).wantMean(t, tt.trips/4, knee*(1-tt.spread), knee*(1+tt.spread)+1)
		})
	}
}

// "Drift upward under constant overload": an hour of it leaves the limit where
// it was, on average. By chance it is elsewhere for moments.
func TestAutoDoesNotDrift(t *testing.T) {
	p := newPlant(auto(t, limit.AutoConfig{}), 20, 50*time.Millisecond)
	p.shape = "exponential"
	p.run(20_000)
	over, n := 0, 0
	for p.now < time.Hour {
		p.run(1000)
		p.wantLimit(t, 5, 150)
		over, n = over+p.alg.Limit(), n+1
	}
	if mean := float64(over) / float64(n); mean < 17 || mean > 30 {
		t.Errorf("limit %.1f on average: want about 20", mean)
	}
}

// A service that slows down is not a queue: the limit stays, and stays when it
// recovers.
func TestAutoKnowsASlowerService(t *testing.T) {
	p := newPlant(auto(t, limit.AutoConfig{}), 20, 50*time.Millisecond)
	p.run(4000)
	p.wantMean(t, 100, 18, 24)
	p.mean = 500 * time.Millisecond
	low := p.alg.Limit()
	for range 200 {
		p.run(100)
		low = min(low, p.alg.Limit())
	}
	if low < 14 {
		t.Errorf("limit %d while it was slow: want hardly less than 20", low)
	}
	p.wantMean(t, 100, 18, 24)
	p.mean = 50 * time.Millisecond
	p.run(4000)
	p.wantMean(t, 100, 18, 24)
}

// Servers that fail, and come back, are a lower knee.
func TestAutoFollowsServers(t *testing.T) {
	p := newPlant(auto(t, limit.AutoConfig{}), 20, 50*time.Millisecond)
	p.run(4000)
	p.servers = 8
	p.run(4000)
	p.wantMean(t, 100, 7, 10)
	p.servers = 20
	p.run(6000)
	p.wantMean(t, 100, 17, 24)
}

// "Growth while idle", "drop burst after idle": a limit that is not used is
// left alone, for however long, and is what it was when it is used again.
func TestAutoLeavesAnUnusedLimitAlone(t *testing.T) {
	p := newPlant(auto(t, limit.AutoConfig{}), 20, 50*time.Millisecond)
	p.run(4000)
	p.wantLimit(t, 18, 23)
	p.demand = 5
	p.run(2000) // a trial that had begun is over
	was := p.alg.Limit()
	p.seen = func(now time.Duration, was, limit int, c limit.Cause) {
		t.Errorf("at %v: limit %d to %d, %v, though it is not used", now, was, limit, c)
	}
	p.run(100_000)
	p.now += time.Hour
	p.seen = nil
	p.demand = 0
	if n := p.alg.Limit(); n != was {
		t.Errorf("limit %d after it was idle: want %d still", n, was)
	}
	for range 40 {
		p.run(100)
		p.wantLimit(t, 14, 30)
	}
}

// A raise that is not used is taken back, and says so.
func TestAutoTakesBackAnUnusedRaise(t *testing.T) {
	p := newPlant(auto(t, limit.AutoConfig{}), 1000, time.Millisecond)
	p.trips(1)
	var idle bool
	p.seen = func(_ time.Duration, was, n int, c limit.Cause) {
		idle = idle || c == limit.Idle && n < was
	}
	p.run(7)
	p.demand = 3
	p.run(1000)
	if !idle {
		t.Errorf("limit %d: the raise still stands, though nobody made use of it", p.alg.Limit())
	}
}

// "Collapse to 1 after one burst of failures", "caller cancel counted as a
// drop": a burst takes half at most, and what was there is soon there again;
// callers that leave take nothing.
func TestAutoBurstOfFailures(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		outcome weir.Outcome
		share   float64 // of the limit, that is left at least
	}{
		{"a burst of drops", weir.Dropped, 0.5},
		{"a burst of time-outs", weir.TimedOut, 0.5},
		{"work that was late", weir.Late, 0.5},
		{"callers that leave", weir.Left, 0.9},
		{"errors that say nothing about load", weir.Ignored, 0.9},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			p := newPlant(auto(t, limit.AutoConfig{}), 20, 50*time.Millisecond)
			p.run(4000)
			begin, was := p.now, p.alg.Limit()
			p.outcome = func(s limit.Sample) weir.Outcome {
				if s.Start < begin { // all that was in flight
					return tt.outcome
				}
				return weir.Success
			}
			p.trips(2)
			p.wantLimit(t, int(tt.share*float64(was)), 25)
			p.trips(60)
			p.wantLimit(t, 17, 25)
		})
	}
}

// Work that is late because it waited says nothing against the limit: a lower
// one would make it wait longer.
func TestAutoLateForWaiting(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		sample limit.Sample
		falls  bool
	}{
		{"took no longer than ever", limit.Sample{End: 50 * time.Millisecond, Waited: 0}, false},
		{"took longer, but waited longer still", limit.Sample{End: 200 * time.Millisecond, Waited: 300 * time.Millisecond}, false},
		{"took longer, and hardly waited", limit.Sample{End: 200 * time.Millisecond, Waited: 100 * time.Millisecond}, true},
	} {
		for _, o := range []weir.Outcome{weir.Late, weir.TimedOut} {
			t.Run(fmt.Sprintf("%s, %v", tt.rule, o), func(t *testing.T) {
				p := newPlant(auto(t, limit.AutoConfig{}), 20, 50*time.Millisecond)
				p.run(4000)
				fell := false
				for i := range 100 {
					s := tt.sample
					s.Start, s.End = p.now+time.Duration(i)*time.Millisecond, p.now+time.Duration(i)*time.Millisecond+s.End
					s.Inflight, s.Outcome = p.alg.Limit(), o
					c := p.alg.Observe(s)
					fell = fell || c == limit.Dropped
				}
				if fell != tt.falls {
					t.Errorf("the limit fell: %v: want %v", fell, tt.falls)
				}
			})
		}
	}
}

// Failures by chance, unrelated to load, do not wear the limit down.
func TestAutoBearsAFewFailures(t *testing.T) {
	p := newPlant(auto(t, limit.AutoConfig{}), 20, 50*time.Millisecond)
	p.shape = "exponential"
	p.outcome = func(limit.Sample) weir.Outcome {
		if p.rng.Float64() < 0.02 {
			return weir.Dropped
		}
		return weir.Success
	}
	p.run(20_000)
	for range 100 {
		p.run(400)
		p.wantLimit(t, 9, 60)
	}
}

// While all fails, the limit falls to its least; afterwards it comes back.
func TestAutoOutage(t *testing.T) {
	p := newPlant(auto(t, limit.AutoConfig{}), 20, 50*time.Millisecond)
	p.run(4000)
	p.outcome = func(limit.Sample) weir.Outcome { return weir.Dropped }
	p.run(1000)
	p.wantLimit(t, 1, 2)
	p.outcome = nil
	p.trips(150)
	p.wantLimit(t, 17, 23)
}

// "Drops always push down, at most once per round trip."
func TestAutoDropsOncePerRoundTrip(t *testing.T) {
	p := newPlant(auto(t, limit.AutoConfig{}), 100, time.Second)
	p.trips(60)
	p.outcome = func(limit.Sample) weir.Outcome { return weir.Dropped }
	var at []time.Duration
	p.seen = func(now time.Duration, was, n int, c limit.Cause) {
		if c != limit.Dropped || n >= was || n < was/2-1 {
			t.Errorf("at %v: limit %d to %d, %v: want a drop to half at least", now, was, n, c)
		}
		at = append(at, now)
	}
	p.trips(5)
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] < time.Second {
			t.Errorf("fell at %v and again at %v: a round trip takes a second", at[i-1], at[i])
		}
	}
	if len(at) < 3 {
		t.Errorf("fell %d times in five round trips", len(at))
	}
}

// What takes longer than is healthy lowers the limit even if more work were
// more throughput.
func TestAutoMaxHealthyLatency(t *testing.T) {
	p := newPlant(auto(t, limit.AutoConfig{Initial: 40, MaxHealthyLatency: 99 * time.Millisecond}), 10, 50*time.Millisecond)
	slow := false
	p.seen = func(_ time.Duration, _, _ int, c limit.Cause) { slow = slow || c == limit.Slow }
	p.trips(50)
	if !slow {
		t.Error("the limit never fell because work was slow")
	}
	p.wantLimit(t, 5, 19)
}

func TestAutoBounds(t *testing.T) {
	low := newPlant(auto(t, limit.AutoConfig{Min: 5, Max: 50}), 1, time.Millisecond)
	floor := false
	low.seen = func(_ time.Duration, _, n int, c limit.Cause) {
		floor = floor || c == limit.Floor && n == 5
		if n < 5 {
			t.Errorf("limit %d: below Min", n)
		}
	}
	low.trips(200)
	low.wantLimit(t, 5, 7)
	high := newPlant(auto(t, limit.AutoConfig{Max: 50}), 100, time.Millisecond)
	ceiling := false
	high.seen = func(_ time.Duration, _, n int, c limit.Cause) {
		ceiling = ceiling || c == limit.Ceiling && n == 50
		if n > 50 {
			t.Errorf("limit %d: above Max", n)
		}
	}
	high.trips(200)
	high.wantLimit(t, 45, 50)
	if !floor || !ceiling {
		t.Errorf("floor said: %v, ceiling said: %v", floor, ceiling)
	}
}

// A limit that begins at its most finds a knee below it, too, and so does one
// that has little room above.
func TestAutoBeginsAtItsMost(t *testing.T) {
	for _, initial := range []int{44, 50} {
		p := newPlant(auto(t, limit.AutoConfig{Initial: initial, Max: 50}), 10, 5*time.Millisecond)
		p.trips(200).wantMean(t, 50, 9, 12)
	}
}

// Work of many units at once fills a limit before its last unit is taken.
func TestAutoUnits(t *testing.T) {
	a := auto(t, limit.AutoConfig{Initial: 12})
	now, grew := time.Duration(0), false
	for range 200 {
		now += time.Second
		grew = grew || a.Observe(limit.Sample{Start: now - time.Second, End: now, Inflight: 10, N: 5, Outcome: ok}) != limit.Kept
	}
	if !grew {
		t.Error("two times five of twelve units are in use, no more fit, and the limit is taken as unused")
	}
}

func TestAutoValidate(t *testing.T) {
	for _, tt := range []struct {
		cfg  limit.AutoConfig
		want string
	}{
		{limit.AutoConfig{Min: -1}, "Min = -1: must be >= 1"},
		{limit.AutoConfig{Min: 5, Max: 4}, "Max = 4: must be >= Min (5)"},
		{limit.AutoConfig{Max: -4}, "Max = -4"},
		{limit.AutoConfig{Initial: 20_000}, "Initial = 20000: must be in [1, 10000]"},
		{limit.AutoConfig{Initial: -2}, "Initial = -2"},
		{limit.AutoConfig{MaxHealthyLatency: -1}, "MaxHealthyLatency = -1ns: must be >= 0"},
	} {
		if _, err := limit.NewAuto(tt.cfg); err == nil || !strings.HasPrefix(err.Error(), "limit: "+tt.want) {
			t.Errorf("%+v: %v: want %q", tt.cfg, err, tt.want)
		}
	}
	for _, tt := range []struct {
		cfg  limit.AutoConfig
		want int
	}{
		{limit.AutoConfig{}, 10}, {limit.AutoConfig{Max: 5}, 5}, {limit.AutoConfig{Min: 30}, 30}, {limit.AutoConfig{Min: 20_000}, 20_000},
	} {
		if n := auto(t, tt.cfg).Limit(); n != tt.want {
			t.Errorf("%+v: starts at %d: want %d", tt.cfg, n, tt.want)
		}
	}
}
