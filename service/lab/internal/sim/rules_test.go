package sim_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// scene is ten calls a second, evenly, for ten seconds, to a worker that takes
// as long as work.
func scene(work time.Duration, timeout time.Duration) sim.Scenario {
	return sim.Scenario{
		Name: "scene", Duration: 11 * time.Second, Seed: 1,
		Layers:  []sim.Layer{{Name: "service", Workers: 1, ServiceTime: dist.ServiceTime{Mean: work}}},
		Clients: []sim.Client{{Name: "users", Rate: "10@10s,0", Arrivals: "even", Timeout: timeout}},
	}
}

func expect(t *testing.T, what string, got, want uint64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d: want %d", what, got, want)
	}
}

// A request that times out while it waits at the guard leaves the queue at once, and
// never gets a worker.
func TestLeavesTheGuardsQueue(t *testing.T) {
	sc := scene(150*ms, 200*ms)
	sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 1}, Queue: 100, Blind: true}
	r := run(t, sc)
	g := r.Layers[0].Guard
	if g.Cancelled == 0 || g.Admitted+g.Cancelled+g.TooLate != 100 {
		t.Errorf("%+v: want all of 100 admitted or cancelled, or too late once some have cancelled", *g)
	}
	expect(t, "jobs left", r.Totals.Inside, 0)
}

// A guard that knows the deadlines refuses instead.
func TestGuardKnowsDeadlines(t *testing.T) {
	sc := scene(150*ms, 200*ms)
	sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 1}, Queue: 100}
	if g := run(t, sc).Layers[0].Guard; g.TooLate == 0 {
		t.Errorf("%+v: want some too late", *g)
	}
}

// Abandoned work continues, and counts as dropped for the guard; its unit is released
// when it has ended.
func TestAbandonedWorkGoesOn(t *testing.T) {
	sc := scene(250*ms, 100*ms)
	sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 1}}
	r := run(t, sc)
	g := r.Layers[0].Guard
	expect(t, "admitted: every third, as a unit is held for 250 ms", g.Admitted, 34)
	expect(t, "dropped", g.Dropped, 34)
	expect(t, "abandoned, as far as the guard knows", g.Abandoned, 0)
	expect(t, "timed out", r.Totals.TimedOut, 34)
	expect(t, "refused", r.Totals.Rejected, 66)
}

// A library sees its caller leave, and not the end of the work. The guard still holds
// the unit for the service time that it has learnt.
func TestLibraryGuard(t *testing.T) {
	sc := scene(250*ms, 100*ms)
	sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 1}, Library: true}
	g := run(t, sc).Layers[0].Guard
	if g.Abandoned == 0 || g.Abandoned != g.Dropped || g.Abandoned != g.Admitted {
		t.Errorf("%+v: want all abandoned", *g)
	}
}

// Work that is cancelled frees its worker and its place in the queue at once.
func TestCancelAbandoned(t *testing.T) {
	sc := scene(time.Second, 50*ms)
	sc.Layers[0].CancelAbandoned = true
	sc.Layers[0].Queue = ptr(1)
	sc.Clients = append(sc.Clients, sc.Clients[0])
	sc.Clients[1].Name, sc.Clients[1].Timeout = "others", 40*ms
	r := run(t, sc)
	expect(t, "timed out: one at work and one waiting each time", r.Totals.TimedOut, 200)
	expect(t, "jobs left", r.Totals.Inside, 0)
	within(t, "busy", r.Layers[0].Busy, 0.5*10/11, 0.01)
}

// A layer's time-out answers its caller; the layer below continues.
func TestLayerTimeout(t *testing.T) {
	sc := scene(0, 0)
	sc.Layers[0].Workers = 0
	sc.Layers = append(sc.Layers, sim.Layer{Name: "database", Timeout: 30 * ms, ServiceTime: dist.ServiceTime{Mean: 40 * ms}})
	r := run(t, sc)
	expect(t, "timed out", r.Totals.TimedOut, 100)
	within(t, "time in the first layer", r.Layers[0].Sojourn.Seconds(), 0.03, 1e-9)
	within(t, "time in the second", r.Layers[1].Sojourn.Seconds(), 0.04, 1e-9)
}

// A layer calls the next one Calls times, and each call up to Attempts times.
func TestCalls(t *testing.T) {
	sc := scene(ms, 0)
	sc.Layers[0].Calls = 3
	sc.Layers = append(sc.Layers, sim.Layer{Name: "database", ServiceTime: dist.ServiceTime{Mean: 10 * ms}})
	r := run(t, sc)
	expect(t, "visits", r.Layers[1].Arrived, 300)
	within(t, "latency: 1 ms and three times 10", r.Latency.Mean.Seconds(), 0.031, 1e-9)
	sc.Layers[0].Attempts = 2
	sc.Layers[1].RefuseRate = 1
	r = run(t, sc)
	expect(t, "visits: the first call fails twice", r.Layers[1].Arrived, 200)
	expect(t, "overloaded", r.Totals.Overloaded, 100)
}

// A job that waits for the layer below does not share the processor.
func TestSharingWhileCalling(t *testing.T) {
	sc := scene(ms, 0)
	sc.Layers[0].Sharing = true
	sc.Layers = append(sc.Layers, sim.Layer{Name: "database", ServiceTime: dist.ServiceTime{Mean: 10 * ms}})
	sc.Clients[0] = sim.Client{Name: "users", Users: 5}
	r := run(t, sc)
	within(t, "busy", r.Layers[0].Busy, r.Layers[0].Inside-r.Layers[1].Inside, 1e-6)
}

func TestRetries(t *testing.T) {
	sc := scene(0, 0)
	sc.Layers[0].FailureRate = 1
	sc.Clients[0].Retry = sim.Retry{Attempts: 3}
	r := run(t, sc)
	expect(t, "attempts", r.Totals.Attempts, 300)
	expect(t, "failed", r.Totals.Failed, 100)

	sc.Clients[0].Retry.Budget = &adaptive.BudgetConfig{Ratio: 0.1, MinPerSecond: -1, Window: time.Minute}
	expect(t, "attempts, with a budget of a tenth", run(t, sc).Totals.Attempts, 110)

	sc.Clients[0].Retry = sim.Retry{Attempts: 3, Backoff: time.Hour}
	sc.Clients[0].Deadline = time.Second
	r = run(t, sc)
	if r.Totals.Attempts > 105 {
		t.Errorf("%d attempts: want hardly a retry within the deadline", r.Totals.Attempts)
	}
	expect(t, "calls that wait for a retry that comes too late", r.Totals.Open, 0)
}

// A client that throttles itself spares the service.
func TestThrottle(t *testing.T) {
	sc := scene(0, 0)
	sc.Layers[0].RefuseRate = 1
	sc.Clients[0].Throttle = &adaptive.Config{Grace: -1}
	r := run(t, sc)
	if r.Totals.Attempts > 40 || r.Outcomes["throttled"]+r.Outcomes["overloaded"] != 100 {
		t.Errorf("%d attempts, %v: want most kept back", r.Totals.Attempts, r.Outcomes)
	}
}

// Changes apply to work that begins later.
func TestChanges(t *testing.T) {
	sc := scene(10*ms, 0)
	sc.Step = time.Second
	sc.Clients[0] = sim.Client{Name: "users", Users: 4}
	sc.Layers[0].Changes = []sim.Change{
		{At: 3 * time.Second, Slowdown: ptr(2.0)},
		{At: 6 * time.Second, Slowdown: ptr(1.0), Workers: ptr(2)},
		{At: 9 * time.Second, FailureRate: ptr(1.0)},
	}
	for i, st := range run(t, sc).Series {
		want := []float64{100, 100, 100, 50, 50, 50, 200, 200, 200, 0, 0}[i]
		if got := float64(st.Good); got < want-3 || got > want+3 {
			t.Errorf("second %d: %v answers: want %v", i, got, want)
		}
		capacity := sc.Forecast().Capacity(st.At - 500*ms)
		if i < 9 && capacity != want {
			t.Errorf("second %d: capacity %v: want %v", i, capacity, want)
		}
	}
}

// All arrivals of a period come at its beginning.
func TestBurst(t *testing.T) {
	sc := scene(0, 0)
	sc.Clients[0].Burst = sim.Burst{Every: 2 * time.Second, For: 100 * ms}
	n := 0
	s, err := sim.New(sc, func(r trace.Record) {
		// Twenty in each period of 2 s, squeezed into its first 100 ms.
		if want := time.Duration(n/20)*2*time.Second + time.Duration(n%20)*5*ms; r.Intended != want {
			t.Errorf("call %d at %v: want %v", n, r.Intended, want)
		}
		n++
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Until(sc.Duration)
	expect(t, "calls", uint64(n), 100)
}

// Latency counts from the intended start of the first attempt.
func TestLatencyOfRetries(t *testing.T) {
	sc := scene(80*ms, 50*ms) // no attempt is in time until the service is fast
	sc.Layers[0].Workers = 0
	sc.Layers[0].Changes = []sim.Change{{At: 10*ms + 9900*ms, Slowdown: ptr(0.5)}}
	sc.Clients[0].Retry = sim.Retry{Attempts: 2}
	r := run(t, sc)
	expect(t, "good: the last, by its second attempt", r.Totals.Good, 1)
	within(t, "latency: 50 ms, and 40 ms", r.Latency.Mean.Seconds(), 0.09, 1e-9)
}

// Work that lasts longer than the run is not done, for any duration.
func TestLongestWork(t *testing.T) {
	const most = 10_000 * time.Hour
	for name, spoil := range map[string]func(*sim.Scenario){
		"work":    func(*sim.Scenario) {},
		"sharing": func(sc *sim.Scenario) { sc.Layers[0].Sharing = true },
		"pauses":  func(sc *sim.Scenario) { sc.Layers[0].Pause = sim.Pause{Every: most, For: most - 1} },
		"thought": func(sc *sim.Scenario) {
			sc.Layers[0].ServiceTime.Mean, sc.Layers[0].Changes = 1, nil
			sc.Clients[0].Rate, sc.Clients[0].Users = "", 20
			sc.Clients[0].Think = dist.ServiceTime{Mean: time.Hour, Distribution: "lognormal", CV: 10}
		},
		"retries": func(sc *sim.Scenario) {
			sc.Layers[0].RefuseRate = 1
			sc.Clients[0].Timeout, sc.Clients[0].Deadline = most, most
			sc.Clients[0].Retry = sim.Retry{Attempts: 100, Backoff: most}
		},
	} {
		sc := scene(time.Hour, 0)
		sc.Duration = most
		sc.Clients[0].Rate = "100@10s,0"
		l := &sc.Layers[0]
		l.Workers, l.Contention = 1000, sim.Contention{Sigma: 1e6, Kappa: 1e6}
		l.ServiceTime.Distribution, l.ServiceTime.CV = "lognormal", 10
		l.Changes = []sim.Change{{Slowdown: ptr(1e6)}}
		spoil(&sc)
		r, err := sim.Run(t.Context(), sc, nil, nil)
		if err != nil || r.Latency.Mean < 0 || r.Latency.Max < 0 || r.Totals.Calls == 0 {
			t.Errorf("%s: %v, %+v", name, err, r.Totals)
		}
	}
}
