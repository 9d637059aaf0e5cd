package sim_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// always is a constant time.
func always(d time.Duration) dist.ServiceTime { return dist.ServiceTime{Mean: d} }

// guarded is a scene with a limit of 100 that holds units until the end of the work.
func guarded(work, timeout time.Duration) sim.Scenario {
	sc := scene(work, timeout)
	sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 100}, Blind: true}
	return sc
}

// A request that fails after a time holds a unit of its guard, and no worker.
func TestFaultsTakeTime(t *testing.T) {
	for what, change := range map[string]func(*sim.Layer){
		"overloaded": func(l *sim.Layer) { l.RefuseRate, l.RefuseAfter = 1, always(200*ms) },
		"failed":     func(l *sim.Layer) { l.FailureRate, l.FailAfter = 1, always(200*ms) },
	} {
		sc := guarded(10*ms, 0)
		change(&sc.Layers[0])
		r := run(t, sc)
		expect(t, what, r.Outcomes[what], 100)
		within(t, what+": time inside", r.Layers[0].Sojourn.Seconds(), 0.2, 1e-9)
		within(t, what+": busy workers", r.Layers[0].Busy, 0, 0)
		if g := r.Layers[0].Guard; g.Dropped+g.Ignored != 100 || (what == "failed") != (g.Ignored == 100) {
			t.Errorf("%s: %+v", what, *g)
		}
	}
}

// A failure that works waits for its worker, and holds it.
func TestFailWorks(t *testing.T) {
	sc := guarded(10*ms, 0)
	l := &sc.Layers[0]
	l.FailureRate, l.FailAfter, l.FailWorks = 1, always(150*ms), true
	r := run(t, sc)
	within(t, "busy workers", r.Layers[0].Busy, 1, 0.001)
	expect(t, "failed: one in 150 ms", r.Outcomes["failed"], 73)
	within(t, "forecast: how long a call takes", sc.Forecast().Unloaded(0).Seconds(), 0.15, 1e-9)
}

// A request that hangs ends when its caller leaves, or after HangFor.
func TestHang(t *testing.T) {
	for _, tt := range []struct {
		rule             string
		timeout, hangFor time.Duration
		sojourn          time.Duration
		dropped          uint64 // until the end of the run at 11 s
		outcome          string
		outcomes         uint64
	}{
		{"until its caller leaves", 300 * ms, 0, 300 * ms, 100, "timeout", 100},
		{"beyond its caller", 300 * ms, time.Second, time.Second, 100, "timeout", 100},
		{"no longer than it hangs", 2 * time.Second, time.Second, time.Second, 100, "overloaded", 100},
		{"until the end", 0, 0, 0, 0, "overloaded", 0},
	} {
		sc := guarded(10*ms, tt.timeout)
		sc.Layers[0].HangRate, sc.Layers[0].HangFor = 1, tt.hangFor
		r := run(t, sc)
		l := r.Layers[0]
		expect(t, tt.rule+": dropped, or left by its caller", l.Guard.Dropped+l.Guard.Ignored, tt.dropped)
		expect(t, tt.rule+": "+tt.outcome, r.Outcomes[tt.outcome], tt.outcomes)
		within(t, tt.rule, l.Sojourn.Seconds(), tt.sojourn.Seconds(), 0.01)
		within(t, tt.rule+": busy workers", l.Busy, 0, 0)
	}
	sc := guarded(10*ms, 300*ms)
	sc.Layers[0].HangRate, sc.Layers[0].Guard.Library = 1, true
	if g := run(t, sc).Layers[0].Guard; g.Abandoned != 100 {
		t.Errorf("a library sees 100 callers leave: %+v", *g)
	}
	sc = guarded(10*ms, 0)
	sc.Layers[0].HangRate, sc.Duration = 1, 2*time.Minute
	r := run(t, sc)
	within(t, "a minute, if no caller leaves", r.Layers[0].Sojourn.Seconds(), 60, 1e-9)
}

// Faults come and go, of one class or one pod, and change over time.
func TestFaultsAreSelective(t *testing.T) {
	mixed := func(sc *sim.Scenario) {
		sc.Layers[0].Classes = map[string]sim.Class{"a": {ServiceTime: always(ms)}, "b": {ServiceTime: always(ms)}}
		sc.Clients[0].Mix = []sim.Share{{Class: "a", Share: 1}, {Class: "b", Share: 1}}
	}
	sc := scene(ms, 0)
	sc.Layers[0].RefuseRate = 1
	sc.Layers[0].Flap = sim.Flap{First: time.Second, Every: 2 * time.Second, For: time.Second}
	expect(t, "flapping: every other second", run(t, sc).Outcomes["overloaded"], 50)

	sc = scene(ms, 0)
	mixed(&sc)
	sc.Layers[0].RefuseRate, sc.Layers[0].FailingClasses = 1, []string{"b"}
	for _, c := range run(t, sc).Classes {
		if refused := c.Outcomes["overloaded"]; (c.Name == "b") != (refused > 0) || refused > 0 && c.Outcomes["ok"] > 0 {
			t.Errorf("class %s: %v", c.Name, c.Outcomes)
		}
	}

	sc = scene(ms, 0)
	sc.Clients[0].Rate, sc.Duration = "1000@10s,0", 12*time.Second
	sc.Layers[0].Workers, sc.Layers[0].RefuseRate, sc.Layers[0].Pods = 10, 1, 8
	expect(t, "no bad pod", run(t, sc).Outcomes["overloaded"], 0)
	sc.Layers[0].Changes = []sim.Change{{At: 2 * time.Second, BadPods: ptr(1)}, {At: 6 * time.Second, BadPods: ptr(2)}, {At: 8 * time.Second, BadPods: ptr(0)}}
	within(t, "one bad pod of eight for 4 s, then two for 2 s", float64(run(t, sc).Outcomes["overloaded"]), 1000, 0.06)

	sc = guarded(ms, 100*ms)
	sc.Layers[0].Changes = []sim.Change{
		{At: time.Second, HangRate: ptr(1.0), HangFor: ptr(50 * ms)}, {At: 2 * time.Second, HangRate: ptr(0.0), FailureRate: ptr(1.0), FailAfter: ptr(always(70 * ms))},
		{At: 3 * time.Second, FailureRate: ptr(0.0), RefuseRate: ptr(1.0), RefuseAfter: ptr(always(20 * ms))}, {At: 4 * time.Second, RefuseRate: ptr(0.0)}}
	r := run(t, sc)
	if r.Outcomes["overloaded"] != 20 || r.Outcomes["failed"] != 10 || r.Outcomes["ok"] != 70 {
		t.Errorf("%v: want 10 that hang, 10 that fail, 10 that are refused", r.Outcomes)
	}
	within(t, "time in faults", r.Layers[0].Sojourn.Seconds()*100, 10*(0.05+0.07+0.02)+70*0.001, 1e-6)
}

// A station that goes down refuses the jobs in it, and all others until it is up again.
func TestDown(t *testing.T) {
	sc := scene(150*ms, 0)
	sc.Layers = append(sc.Layers, sc.Layers[0])
	sc.Layers[0].Workers, sc.Layers[0].ServiceTime, sc.Layers[0].Name = 0, dist.ServiceTime{}, "proxy"
	sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 100}}
	sc.Layers[1].Changes = []sim.Change{{At: 5050 * ms, Down: ptr(true)}, {At: 7050 * ms, Down: ptr(false)}}
	r := run(t, sc)
	// By 5.05 s 51 have come and 33 are done.
	expect(t, "refused: 18 that were inside, and 20 that came", r.Outcomes["overloaded"], 18+20)
	expect(t, "done: all others, but those that still wait at the end", r.Outcomes["ok"]+r.Totals.Open, 62)
	for _, st := range r.Series {
		if inside := st.Layers[1].Busy + st.Layers[1].Queued; st.At > 5060*ms && st.At < 7*time.Second && inside > 0 {
			t.Fatalf("%d inside at %v", inside, st.At)
		}
	}
	sc.Layers[0].Changes = sc.Layers[1].Changes // the upper layer, while it calls the lower
	r = run(t, sc)
	expect(t, "jobs left, and calls", r.Totals.Inside, r.Totals.Open*2)
	sc.Layers[1].Sharing = true
	sc.Layers[1].RefuseAfter = always(30 * ms)
	sc.Layers[0].Changes = nil
	if r = run(t, sc); r.Outcomes["overloaded"] < 25 {
		t.Errorf("sharing: %v", r.Outcomes)
	}
}

// Streams hold units of their guard, and no worker.
func TestStreams(t *testing.T) {
	sc := guarded(20*ms, 0)
	sc.Layers[0].Classes = map[string]sim.Class{"events": {ServiceTime: always(5 * time.Second), Stream: true}}
	sc.Clients = append(sc.Clients, sim.Client{Name: "watchers", Rate: "1@5s,0", Arrivals: "even", Mix: []sim.Share{{Class: "events", Share: 1}}})
	sc.Layers[0].Sharing = true
	for range 2 {
		r := run(t, sc)
		expect(t, "done", r.Outcomes["ok"], 105)
		within(t, "busy workers", r.Layers[0].Busy, 100*0.02/11, 0.01)
		within(t, "in the layer", r.Layers[0].Inside, (100*0.02+5*5)/11, 0.01)
		sc.Layers[0].Sharing = false
	}
	// A stream through a proxy holds no worker of the proxy either.
	sc.Layers[0].Guard = nil
	sc.Layers = append([]sim.Layer{{Name: "proxy", Workers: 1, Classes: map[string]sim.Class{"events": {Stream: true}},
		Guard: &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 100}}}}, sc.Layers...)
	for range 2 {
		r := run(t, sc)
		expect(t, "done, through a proxy", r.Outcomes["ok"], 105)
		expect(t, "jobs left", r.Totals.Inside, 0)
		if r.Layers[0].Busy < 0 {
			t.Errorf("%v busy workers", r.Layers[0].Busy)
		}
		sc.Layers[0].Sharing = true
	}
}
