package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// stalled is a scene with a limit. Its guard stalls for the second half of each second.
func stalled(limit int, work, timeout time.Duration) sim.Scenario {
	sc := scene(work, timeout)
	sc.Layers[0].Workers = 0
	sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: limit}, Queue: 100, Blind: true,
		Stalls: sim.Stalls{First: 500 * ms, Every: time.Second, For: 500 * ms}}
	return sc
}

// awake returns the instant at which such a guard sees an event.
func awake(at time.Duration) time.Duration {
	if at%time.Second < 500*ms {
		return at
	}
	return at.Truncate(time.Second) + time.Second
}

// A guard that stalls admits and answers requests at the end of the stall.
func TestStallsDelay(t *testing.T) {
	for _, work := range []time.Duration{0, 13 * ms, 417 * ms, 1313 * ms} {
		n := 0
		_, err := sim.Run(t.Context(), stalled(100, work, 0), func(r trace.Record) {
			n++
			if want := awake(awake(r.Start) + work); r.End != want {
				t.Errorf("work of %v: came at %v, answered at %v: want %v", work, r.Start, r.End, want)
			}
		}, nil)
		if err != nil || n < 90 {
			t.Errorf("%d calls, %v", n, err)
		}
	}
}

// until runs a scenario until an instant.
func until(t *testing.T, sc sim.Scenario, at time.Duration) sim.Visits {
	t.Helper()
	s, err := sim.New(sc, nil)
	testrig.Must(t, err)
	s.Until(at)
	return s.Result().Layers[0]
}

// Work goes on during a stall: workers become free. Their units of the limit do not.
func TestWorkGoesOnInAStall(t *testing.T) {
	sc := stalled(2, 300*ms, 0)
	before, during, after := until(t, sc, 490*ms), until(t, sc, 990*ms), until(t, sc, 1010*ms)
	if g := before.Guard; g.Inflight != 2 || g.Waiting != 1 || g.Admitted != 4 {
		t.Errorf("before: %+v: want two in flight after two", *g)
	}
	if *during.Guard != *before.Guard {
		t.Errorf("in a stall: %+v: want all as before, %+v", *during.Guard, *before.Guard)
	}
	within(t, "worker time: four times 300 ms", during.Busy*0.99, 1.2, 0.001)
	if g := after.Guard; g.Inflight != 2 || g.Admitted != 6 || g.Success != 4 {
		t.Errorf("after: %+v: want two more admitted, and two more done", *g)
	}
}

// A service that dies during a stall has answered what it did before.
func TestCrashInAStall(t *testing.T) {
	sc := stalled(100, 280*ms, 0)
	sc.Layers[0].Changes = []sim.Change{{At: 650 * ms, Down: ptr(true)}}
	got := until(t, sc, 1010*ms)
	if g := got.Guard; g.Success != 4 || g.Dropped != 7 {
		t.Errorf("%+v: want four that were done by 0.65 s, and seven refused", *g)
	}
	within(t, "worker time: four times 280 ms, and 250 ms", got.Busy*1.01, 1.37, 0.001)
}

// A waits is an algorithm that keeps how long requests have waited.
type waits struct{ all *[]time.Duration }

func (waits) Limit() int { return 100 }
func (w waits) Observe(s limit.Sample) limit.Cause {
	*w.all = append(*w.all, s.Waited)
	return limit.Kept
}

// Requests that come during a stall have not waited in the queue, as far as the guard knows.
func TestWaitInAStall(t *testing.T) {
	sc := stalled(100, 10*ms, 0)
	w := waits{new([]time.Duration)}
	sc.Layers[0].Guard.Limit = sim.Limit{New: func() (limit.Algorithm, error) { return w, nil }}
	run(t, sc)
	if len(*w.all) < 90 || slices.Max(*w.all) > 0 {
		t.Errorf("%v: want no waits", *w.all)
	}
}

// The timers of a guard that stalls are late.
func TestTimersAreLateInAStall(t *testing.T) {
	sc := stalled(1, 10*time.Second, 0)
	sc.Layers[0].Guard.MaxWait = 220 * ms
	for at, want := range map[time.Duration]uint64{490 * ms: 2, 990 * ms: 2, 1010 * ms: 4} {
		expect(t, "overdue at "+at.String(), until(t, sc, at).Guard.Overdue, want)
	}
}

// A guard that stalls sees callers leave at the end of the stall, as a proxy and as a library.
func TestCallersLeaveInAStall(t *testing.T) {
	sc := stalled(1, 10*time.Second, 340*ms)
	for at, want := range map[time.Duration]uint64{490 * ms: 1, 990 * ms: 1, 1010 * ms: 6} {
		expect(t, "cancelled at "+at.String(), until(t, sc, at).Guard.Cancelled, want)
	}
	sc.Layers[0].Guard.Library = true
	before, during, after := until(t, sc, 490*ms).Guard, until(t, sc, 990*ms).Guard, until(t, sc, 1010*ms).Guard
	if before.Abandoned != 2 || *during != *before || after.Abandoned < 4 {
		t.Errorf("a library: %+v, %+v and %+v: want two callers of admitted work that left, and more after the stall", *before, *during, *after)
	}
}

// The work of a caller that leaves in a stall ends at its end, if the work ends with its caller.
func TestAbandonedWorkEndsAfterAStall(t *testing.T) {
	sc := stalled(100, 10*time.Second, 340*ms)
	sc.Layers[0].CancelAbandoned = true
	for at, want := range map[time.Duration]int{490 * ms: 3, 990 * ms: 3, 1010 * ms: 4} { // the arrivals from 200 to 400 ms, and from 700 ms on
		if got := until(t, sc, at).Guard.Inflight; got != want {
			t.Errorf("%d in flight at %v: want %d", got, at, want)
		}
	}
	// Work that ends before its caller leaves is a success.
	sc = stalled(100, 330*ms, 400*ms)
	if g := until(t, sc, 1010*ms).Guard; g.Success != 5 || g.Dropped != 0 {
		t.Errorf("%+v: want the five done", *g)
	}
}

// Random stalls have the given share of the time. Instances have their own stalls.
func TestRandomStalls(t *testing.T) {
	alone := stalled(100, 0, 0)
	alone.Duration = 2000 * time.Second
	alone.Clients[0].Rate, alone.Clients[0].Arrivals = "50", "poisson"
	alone.Layers[0].Guard.Stalls = sim.Stalls{Every: time.Second, For: 250 * ms, Random: true}
	instances := alone
	instances.Layers = []sim.Layer{{Guard: ptr(*alone.Layers[0].Guard)}}
	instances.Layers[0].Guard.Instances = sim.Instances{{Count: 2}}

	// ends runs a scenario, and returns how many calls ended at an instant after a delay.
	ends := func(sc sim.Scenario) (all map[time.Duration]int, share float64, instances []sim.Replica) {
		all = map[time.Duration]int{}
		calls, delayed := 0, 0
		res, err := sim.Run(t.Context(), sc, func(r trace.Record) {
			calls++
			if r.Latency() != 0 {
				delayed++
				all[r.End]++
			}
		}, nil)
		testrig.Must(t, err)
		return all, float64(delayed) / float64(calls), res.Layers[0].Instances
	}
	want, share, _ := ends(alone)
	within(t, "share that is delayed", share, 0.25, 0.05)
	got, share, guards := ends(instances)
	within(t, "share that is delayed by one of two", share, 0.25, 0.05)

	same, calls := 0, 0
	for at, n := range got {
		if calls += n; want[at] > 0 {
			same += n
		}
	}
	if share := float64(same) / float64(calls); share < 0.45 || share > 0.55 || guards[1].Guard.Admitted == 0 {
		t.Errorf("%.3f of the delayed calls end with a stall of the first process: want half, with %+v", share, guards)
	}
}
