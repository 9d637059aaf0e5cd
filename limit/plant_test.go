package limit_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A plant is a service under a limit that is always fully used, unless demand
// says otherwise: a number of servers, first come first served.
type plant struct {
	alg       limit.Algorithm
	rng       *rand.Rand
	now       time.Duration
	servers   int
	mean      time.Duration
	shape     string                                                 // of the service time: "constant", "exponential"
	demand    int                                                    // units in flight at most, if not 0
	outcome   func(limit.Sample) weir.Outcome                        // of served work, if not nil
	refuse    func(active int) (took time.Duration, refused bool)    // of work on its arrival, if not nil
	slower    func() float64                                         // the factor of a service time, if not nil
	neighbour int                                                    // units that another client keeps in flight
	others    int                                                    // of these, in flight now
	active    int                                                    // units in flight that were not refused
	backoff   bool                                                   // after a refusal, the next work comes when a server is done
	paused    bool                                                   // until then
	free      instants                                               // when each server will be
	flight    flights                                                // by end
	seen      func(now time.Duration, was, limit int, c limit.Cause) // of every change
	done      int
}

// neighbours is the N of a sample of the neighbour's work, which no limiter sees.
const neighbours = -1

func newPlant(alg limit.Algorithm, servers int, mean time.Duration) *plant {
	return &plant{alg: alg, rng: rand.New(rand.NewPCG(1, 2)), servers: servers, mean: mean}
}

func auto(t testing.TB, cfg limit.Config) limit.Controller {
	t.Helper()
	a, err := limit.NewAuto(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a.(limit.Controller)
}

// epochSeed and epochRuns choose the epochs of the tests.
var epochSeed, epochRuns = uint64(0), 5

// epochs returns readings of the wall clock at the instant zero. Auto makes its
// trials in slots of the wall clock, so a promise has to hold for each epoch.
func epochs() (all []time.Duration) {
	rng := rand.New(rand.NewPCG(epochSeed, 4))
	for range epochRuns {
		all = append(all, time.Duration(rng.Int64N(int64(10_000*time.Hour))))
	}
	return all
}

// eachEpoch runs a test with an Auto of each epoch.
func eachEpoch(t *testing.T, cfg limit.Config, test func(t *testing.T, a limit.Controller)) {
	t.Helper()
	for _, epoch := range epochs() {
		t.Run(fmt.Sprint("epoch ", epoch), func(t *testing.T) {
			t.Parallel()
			a := auto(t, cfg)
			a.SetEpoch(epoch)
			test(t, a)
		})
	}
}

// run serves n pieces of work.
func (p *plant) run(n int) *plant {
	for range n {
		most := p.alg.Limit()
		if p.demand > 0 {
			most = min(most, p.demand)
		}
		for len(p.flight)-p.others < most && !p.paused {
			p.admit()
		}
		for ; p.others < p.neighbour; p.others++ {
			heap.Push(&p.flight, limit.Sample{End: p.serve(), N: neighbours})
		}
		p.finish()
	}
	return p
}

// trips serves n round trips, each of a limit of work.
func (p *plant) trips(n int) *plant {
	for range n {
		p.run(max(p.alg.Limit(), 1))
	}
	return p
}

// last serves for a span of time.
func (p *plant) last(span time.Duration) *plant {
	for end := p.now + span; p.now < end; {
		p.run(1)
	}
	return p
}

// idle finishes what is in flight, and does nothing for a span of time.
func (p *plant) idle(span time.Duration) {
	for len(p.flight) > 0 {
		p.finish()
	}
	p.now += span
}

// average serves for a span of time and returns the mean of the limit in it, and
// the least and the greatest limit.
func (p *plant) average(span time.Duration) (mean float64, low, high int) {
	begin, area := p.now, 0.0
	low, high = p.alg.Limit(), p.alg.Limit()
	for end := p.now + span; p.now < end; {
		was, at := p.alg.Limit(), p.now
		p.run(1)
		area += float64(was) * float64(p.now-at)
		low, high = min(low, p.alg.Limit()), max(high, p.alg.Limit())
	}
	return area / float64(p.now-begin), low, high
}

func (p *plant) admit() {
	s := limit.Sample{Start: p.now, Inflight: len(p.flight) - p.others + 1, Outcome: weir.Success}
	if p.refuse != nil {
		if took, refused := p.refuse(p.active); refused {
			s.End, s.Outcome = p.now+took, weir.Dropped
			heap.Push(&p.flight, s)
			p.paused = p.backoff
			return
		}
	}
	s.End = p.serve()
	p.active++
	heap.Push(&p.flight, s)
}

// serve returns when the next server will have served work that arrives now.
func (p *plant) serve() (end time.Duration) {
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
	if p.slower != nil {
		took = time.Duration(float64(took) * p.slower())
	}
	end = max(p.now, p.free[0]) + took
	p.free[0] = end
	heap.Fix(&p.free, 0)
	return end
}

func (p *plant) finish() {
	s := heap.Pop(&p.flight).(limit.Sample)
	p.now = s.End
	if s.N == neighbours {
		p.others--
		return
	}
	if s.Outcome == weir.Success {
		p.active--
		p.paused = false
		if p.outcome != nil {
			s.Outcome = p.outcome(s)
		}
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

// wantMean serves for a span of time and checks the mean of the limit: a trial
// may be going on at any instant.
func (p *plant) wantMean(t *testing.T, span time.Duration, low, high float64) {
	t.Helper()
	mean, _, _ := p.average(span)
	t.Logf("at %v: limit %.2f on average: want %.2f to %.2f", p.now, mean, low, high)
	if mean < low || mean > high {
		t.Errorf("after %d, at %v: limit %.1f on average: want %v to %v", p.done, p.now, mean, low, high)
	}
}
