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

// A fleet is several limiters in front of the servers of one service, first
// come first served. Each limit is fully used.
type fleet struct {
	all    []limit.Controller
	rng    *rand.Rand
	now    time.Duration
	mean   time.Duration
	shape  string
	every  time.Duration // the limiters start one after the other
	free   instants
	flight fleetFlights
	active []int // units in flight of each limiter
}

type fleetSample struct {
	limit.Sample
	limiter int
}

type fleetFlights []fleetSample

func (h fleetFlights) Len() int           { return len(h) }
func (h fleetFlights) Less(i, j int) bool { return h[i].End < h[j].End }
func (h fleetFlights) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *fleetFlights) Push(x any)        { *h = append(*h, x.(fleetSample)) }
func (h *fleetFlights) Pop() any          { return pop((*[]fleetSample)(h)) }

func newFleet(t *testing.T, n, servers int, epoch func(i int) time.Duration) *fleet {
	f := &fleet{rng: rand.New(rand.NewPCG(3, 4)), mean: 50 * time.Millisecond, free: make(instants, servers), active: make([]int, n)}
	for i := range n {
		a := auto(t, limit.Config{})
		a.SetEpoch(epoch(i))
		f.all = append(f.all, a)
	}
	return f
}

// admit fills the limits in turns, beginning with a random limiter.
func (f *fleet) admit() {
	first := f.rng.IntN(len(f.all))
	for more := true; more; {
		more = false
		for k := range f.all {
			i := (first + k) % len(f.all)
			if f.now < time.Duration(i)*f.every || f.active[i] >= f.all[i].Limit() {
				continue
			}
			more = true
			f.active[i]++
			took := f.mean
			if f.shape == "exponential" {
				took = time.Duration(f.rng.ExpFloat64() * float64(f.mean))
			}
			end := max(f.now, f.free[0]) + took
			f.free[0] = end
			heap.Fix(&f.free, 0)
			heap.Push(&f.flight, fleetSample{limit.Sample{Start: f.now, End: end, Inflight: f.active[i], Outcome: weir.Success}, i})
		}
	}
}

// average serves for a span of time and returns the mean of the sum of the
// limits.
func (f *fleet) average(span time.Duration) float64 {
	begin, area := f.now, 0.0
	for end := f.now + span; f.now < end; {
		f.admit()
		sum := 0
		for _, a := range f.all {
			sum += a.Limit()
		}
		s := heap.Pop(&f.flight).(fleetSample)
		area += float64(sum) * float64(s.End-f.now)
		f.now = s.End
		f.active[s.limiter]--
		f.all[s.limiter].Observe(s.Sample)
	}
	return area / float64(f.now-begin)
}

// Several limiters in front of one service see each other's queue, though they may
// start one after the other. They cut at
// the same time, so each sees the queue of all become shorter: their limits add
// up to five knees at most, and stay there. Limiters with clocks that differ by hours, and
// by a part of a slot, take each other's queue for a slower service, and grow without end.
func TestAutoFleet(t *testing.T) {
	const servers, knees, slot = 20, 5, time.Duration(1 << 30)
	for _, tt := range []struct {
		n     int
		shape string
		every time.Duration
	}{
		{2, "constant", 0}, {4, "constant", 0}, {8, "constant", 0}, {8, "constant", 5 * time.Second},
		{2, "exponential", 0}, {4, "exponential", 0}, {8, "exponential", 0}, {8, "exponential", 5 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d, %s, every %v", tt.n, tt.shape, tt.every), func(t *testing.T) {
			for _, epoch := range epochs() {
				t.Run(fmt.Sprint("epoch ", epoch), func(t *testing.T) {
					t.Parallel()
					f := newFleet(t, tt.n, servers, func(int) time.Duration { return epoch })
					f.shape, f.every = tt.shape, tt.every
					f.average(2*time.Minute + time.Duration(tt.n)*tt.every)
					first := f.average(3 * time.Minute)
					f.average(4 * time.Minute)
					last := f.average(3 * time.Minute)
					t.Logf("%.1f, then %.1f", first, last)
					if sum := max(first, last); sum < 0.95*servers || sum > knees*servers {
						t.Errorf("limits of %.1f, then of %.1f: want a knee of %d, and %v at most", first, last, servers, knees)
					}
					if last > 1.5*first+servers/2 {
						t.Errorf("limits of %.1f, then of %.1f: want no trend", first, last)
					}
					apart := newFleet(t, tt.n, servers, func(i int) time.Duration {
						return epoch + time.Duration(i)*(37*time.Hour+slot/time.Duration(tt.n))
					})
					apart.shape, apart.every = tt.shape, tt.every
					apart.average(15 * time.Minute)
					if control := apart.average(3 * time.Minute); control < 2*last {
						t.Errorf("limits of %.1f with one clock, %.1f with several: want twice as many", last, control)
					}
				})
			}
		})
	}
}
