package sim_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// replicated is everything, with the instances of the first guard.
func replicated(groups ...sim.Group) sim.Scenario {
	sc := everything(1)
	sc.Layers[0].Guard.Instances = groups
	return sc
}

// A guard of one instance is a guard.
func TestOneInstance(t *testing.T) {
	records, result := traced(t, everything(1))
	for _, groups := range [][]sim.Group{{{}}, {{Count: 1, Weight: 7, Skew: ms}}} {
		if again, resultAgain := traced(t, replicated(groups...)); !bytes.Equal(records, again) || !bytes.Equal(result, resultAgain) {
			t.Errorf("%+v: want what a guard without instances does", groups)
		}
	}
}

// The clocks of the instances have no effect, as long as their wall clocks agree.
func TestEpoch(t *testing.T) {
	for _, name := range []string{"aimd", "auto"} {
		sc := replicated(sim.Group{Count: 4})
		g := sc.Layers[0].Guard
		g.Limit.Name, g.Discipline = name, inflight.CoDel
		records, result := traced(t, sc)
		g.Instances = sim.Instances{{Count: 4, Epoch: 3 * time.Hour, EpochEvery: 7 * time.Minute}}
		if again, resultAgain := traced(t, sc); !bytes.Equal(records, again) || !bytes.Equal(result, resultAgain) {
			t.Errorf("%s: instances with other epochs behave in another way", name)
		}
	}
}

// Each instance has its own limit and queue, and gets its share.
func TestInstances(t *testing.T) {
	sc := sim.Scenario{
		Name: "instances", Duration: 60 * time.Second, Warmup: 10 * time.Second, Seed: 1,
		Layers: []sim.Layer{{Name: "service", Workers: 20, ServiceTime: dist.ServiceTime{Mean: 50 * ms, Distribution: "exponential"},
			Guard: &sim.Guard{Limit: sim.Limit{Name: "aimd"}, Queue: 10, Instances: sim.Instances{
				{Name: "small", Count: 2}, {Name: "large", Weight: 2, Limit: &sim.Limit{Name: "fixed", N: 6}},
				{Name: "late", Count: 2, Start: 20 * time.Second, StartEvery: 10 * time.Second},
			}}}},
		Clients: []sim.Client{{Name: "users", Rate: "300", Timeout: 500 * ms}},
	}
	r := run(t, sc)
	l := r.Layers[0]
	var names []string
	good, limits := 0.0, 0
	for _, in := range l.Instances {
		names = append(names, in.Name)
		good += in.Goodput
		limits += in.Guard.Limit
	}
	if want := []string{"small-1", "small-2", "large", "late-1", "late-2"}; !slices.Equal(names, want) {
		t.Errorf("%q: want %q", names, want)
	}
	if limits != l.Guard.Limit || l.Guard.Admitted == 0 {
		t.Errorf("limits of %d, and %+v of all: want the sum", limits, *l.Guard)
	}
	within(t, "goodput of all, from the last start on", good, 300, 6)
	within(t, "goodput of the large one", l.Instances[2].Goodput, 100, 5)
	if in := l.Instances[2]; in.Limit != 6 || in.Weight != 2 {
		t.Errorf("%+v: want a fixed limit of 6", in)
	}
	if l.Jain < 0.99 {
		t.Errorf("Jain's index %v among four equal instances", l.Jain)
	}
	late := func(st sim.Step) int { return st.Layers[0].Limits[4] }
	before := slices.IndexFunc(r.Series, func(st sim.Step) bool { return st.At > 30*time.Second })
	for _, st := range r.Series[:before] {
		if late(st) != late(r.Series[0]) {
			t.Fatalf("the last instance has a limit of %d at %v: want it to learn nothing before it starts", late(st), st.At)
		}
	}
	for _, st := range r.Series {
		sum := 0
		for _, n := range st.Layers[0].Limits {
			sum += n
		}
		if len(st.Layers[0].Limits) != 5 || sum != st.Layers[0].Limit {
			t.Fatalf("%+v: want the limits of five instances, and their sum", st.Layers[0])
		}
	}
}

// The table has a line for each instance, and sums in the first.
func TestTableOfInstances(t *testing.T) {
	sc := replicated(sim.Group{Name: "a", Count: 14}, sim.Group{Name: "b", Limit: &sim.Limit{Name: "none"}})
	var out bytes.Buffer
	testrig.Must(t, sim.Table(&out, []sim.Result{run(t, sc)}))
	for _, want := range []string{"instance", "a-12", "3 more instances", "Jain's index of equal instances 0.9"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := sim.Table(&out, []sim.Result{run(t, everything(1))}); err != nil || strings.Contains(out.String(), "instance") {
		t.Errorf("%v: want no instances:\n%s", err, out.String())
	}
}

// By route: the calls of a class go to the groups that name it, the others to
// the groups that name none.
func TestInstancesByClass(t *testing.T) {
	sc := sim.Scenario{
		Name: "routes", Duration: 10 * time.Second, Seed: 1,
		Layers: []sim.Layer{{Name: "service", Workers: 50,
			Classes: map[string]sim.Class{"fast": {ServiceTime: dist.ServiceTime{Mean: 10 * ms}}, "slow": {ServiceTime: dist.ServiceTime{Mean: 100 * ms}}},
			Guard: &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 100},
				Instances: sim.Instances{{Name: "fast", Classes: []string{"fast"}}, {Name: "rest", Count: 2}}}}},
		Clients: []sim.Client{{Name: "users", Rate: "300", Arrivals: "even",
			Mix: []sim.Share{{Class: "fast", Share: 2}, {Class: "slow", Share: 1}}}},
	}
	r := run(t, sc)
	for _, c := range r.Classes {
		if in := r.Layers[0].Instances; c.Name == "fast" {
			within(t, "fast calls at their instance", in[0].Goodput, c.Goodput, 1e-9)
		} else {
			within(t, "slow calls at the others", in[1].Goodput+in[2].Goodput, c.Goodput, 1e-9)
			within(t, "half of them at each", in[1].Goodput, in[2].Goodput, 0.15)
		}
	}
	sc.Layers[0].Guard.Instances[1].Start = 5 * time.Second
	if _, err := sim.Run(t.Context(), sc, nil, nil); err == nil || !strings.Contains(err.Error(), "layers[0].guard.instances = \"slow\": the calls of this class need a group that has start 0") {
		t.Errorf("no instance for slow calls: %v", err)
	}
}

// A clocked algorithm records the wall clock that it is given, and the first instant
// that it sees.
type clocked struct {
	limit.Controller
	epoch, first time.Duration
}

func (c *clocked) SetEpoch(d time.Duration) { c.epoch = d }

func (c *clocked) Observe(s limit.Sample) limit.Cause {
	if c.first == 0 {
		c.first = s.End
	}
	return limit.Kept
}

// The wall clocks of all instances agree except for their skew, for any epoch.
func TestWallClock(t *testing.T) {
	var all []*clocked
	sc := scene(50*ms, 0)
	sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{New: func() (limit.Algorithm, error) {
		auto, err := limit.NewAuto(limit.Config{})
		all = append(all, &clocked{Controller: auto.(limit.Controller)})
		return all[len(all)-1], err
	}}, Instances: sim.Instances{{Count: 3, SkewSpread: 50 * ms, EpochEvery: time.Hour}, {Skew: 20 * ms}}}
	s, err := sim.New(sc, nil)
	testrig.Must(t, err)
	all = all[len(all)-4:] // those before are of the validation
	s.Until(sc.Duration)
	want := []time.Duration{-50 * ms, 0, 50 * ms, 20 * ms}
	wall := func(i int) time.Duration { return all[i].epoch + time.Duration(i%3)*time.Hour } // at the beginning of the run
	for i, c := range all {
		if skew := wall(i) - wall(1); skew != want[i] {
			t.Errorf("instance %d has a skew of %v: want %v", i, skew, want[i])
		}
		if at := c.first - time.Duration(i%3)*time.Hour; at < 0 || at > 10*time.Second {
			t.Errorf("instance %d sees its first call at %v", i, c.first)
		}
	}
}

// Shares by weight, of equal calls in all variants.
func TestInstanceOfACall(t *testing.T) {
	const n = 20_000
	sc := scene(0, 0)
	sc.Duration = 2 * n * time.Second
	sc.Clients[0].Rate = "1"
	sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "none"}, Instances: sim.Instances{{Weight: 0.5}, {}, {Weight: 1.5}}}
	r := run(t, sc)
	for i, share := range []float64{1. / 6, 2. / 6, 3. / 6} {
		if got := float64(r.Layers[0].Instances[i].Guard.Admitted) / float64(r.Totals.Calls); math.Abs(got-share) > 0.01 {
			t.Errorf("instance %d gets %.3f of all calls: want %.3f", i, got, share)
		}
	}
	if r.Layers[0].Instances[0].Limit != 0 || r.Layers[0].Guard.Limit != math.MaxInt {
		t.Errorf("%+v: want no limit", r.Layers[0])
	}
}
