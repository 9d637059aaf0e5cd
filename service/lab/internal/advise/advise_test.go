//go:build !race

package advise

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// wantNear fails the test if the value of an interval is not there, or far from a value.
func wantNear(t *testing.T, what string, i Interval, want float64) {
	t.Helper()
	if i.Value == nil || *i.Value < 0.9*want || *i.Value > 1.1*want || *i.Low > want || *i.High < want {
		t.Errorf("%s: %s%s: want %.4g", what, i.text(round), i.between(round), want)
	}
}

func seven() setting { return one("", workers(7, 100*time.Millisecond, "lognormal", 0.5)) }

func TestAdvice(t *testing.T) {
	a := of(t, seven().play(t, 1.2, 3), Options{})
	wantNear(t, "knee", a.Knee, 7)
	wantNear(t, "capacity", a.Capacity, 70)
	wantNear(t, "alone", a.Alone, 0.1)
	if len(a.History) != 1 || len(a.Doubts) > 0 || a.Law != "workers" {
		t.Errorf("%+v, %q, %s", a.History, a.Doubts, a.Law)
	}
	r := a.Recommended
	// The busiest time offers 1.2 times the capacity; instances are loaded to 80 %.
	if r.Limit < 6 || r.Limit > 8 || r.Queue < 5 || r.Queue > 9 || r.RetryBudget != 0 || r.Instances != 2 || !r.Feasible {
		t.Errorf("%+v", r)
	}
}

// A limit that keeps requests away from the service is not taken for its capacity.
func TestALimitIsNoCapacity(t *testing.T) {
	queue := 0
	layer := workers(20, 50*time.Millisecond, "exponential", 0)
	layer.Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 8}, Queue: queue}
	a := of(t, one("", layer).play(t, 1.2, 1), Options{})
	if a.Knee.Value != nil || *a.Knee.Low < 6 || *a.Knee.Low > 8 || a.Servable != nil || a.Rejected == 0 {
		t.Errorf("knee %s, %d rejected", a.Knee.text(round), a.Rejected)
	}
}

// Pauses make the throughput of windows vary. The work of single requests tells the workers then.
func TestPauses(t *testing.T) {
	l := workers(7, 20*time.Millisecond, "lognormal", 0.5)
	l.Pause = sim.Pause{First: time.Second, Every: 3 * time.Second, For: 200 * time.Millisecond}
	records := one("", l).play(t, 1.2, 1)
	a := of(t, slices.DeleteFunc(records, func(r recording.Record) bool { return r.Intended < 60*time.Second }), Options{})
	if k := a.Knee; k.Value == nil || *k.Value != 7 || *k.High > 9 || *a.Capacity.Value < 300 || *a.Capacity.Value > 400 {
		t.Errorf("knee %s%s, capacity %s, %s", k.text(round), k.between(round), a.Capacity.text(round), a.Law)
	}
}

// A slow dependency for a while and a burst of requests leave windows that tell no knee. The work of single requests tells the
// workers then, too.
func TestTroubleForAWhile(t *testing.T) {
	layer := workers(8, 200*time.Millisecond, "lognormal", 0.5)
	layer.Changes = []sim.Change{{At: 25 * time.Second, Slowdown: new(3.5)}, {At: 33 * time.Second, Slowdown: new(1.0)}}
	for seed := range uint64(3) {
		var all []recording.Record
		sc := sim.Scenario{
			Name: "trouble", Duration: 130 * time.Second, Seed: seed + 3, Layers: []sim.Layer{layer},
			Clients: []sim.Client{{Name: "users", Rate: "24@75s,110@8s,20@27s"}},
		}
		if _, err := sim.Run(t.Context(), sc, func(r trace.Record) { all = append(all, recorded.FromTrace(r)) }, nil); err != nil {
			t.Fatal(err)
		}
		if k := of(t, all, Options{}).Knee; k.Value == nil || *k.Value != 8 {
			t.Errorf("knee %s%s: want 8", k.text(round), k.between(round))
		}
	}
}

// After a change, the figures describe the service as it is.
func TestAChangeOfCapacityIsFound(t *testing.T) {
	layer, slow := workers(10, 50*time.Millisecond, "lognormal", 0.5), 2.0
	layer.Changes = []sim.Change{{At: 200 * time.Second, Slowdown: &slow}}
	var all []recording.Record
	sc := sim.Scenario{
		Name: "change", Duration: 400 * time.Second, Seed: 2, Layers: []sim.Layer{layer},
		Clients: []sim.Client{{Name: "users", Rate: "20..240@150s,20@50s,10..130@150s,10"}},
	}
	if _, err := sim.Run(t.Context(), sc, func(r trace.Record) { all = append(all, recorded.FromTrace(r)) }, nil); err != nil {
		t.Fatal(err)
	}
	a := of(t, all, Options{})
	wantNear(t, "capacity", a.Capacity, 100)
	if len(a.History) != 2 || a.History[0].To < 180 || a.History[0].To > 220 {
		t.Fatalf("%+v", a.History)
	}
	wantNear(t, "capacity before", a.History[0].Capacity, 200)
	var page strings.Builder
	p, err := a.Page()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(&page); err != nil || !strings.Contains(page.String(), "The capacity changed at ") || !strings.Contains(page.String(), "History of the capacity") {
		t.Errorf("%v, %s", err, page.String())
	}
}

// While its callers leave, what a service does is not seen. That time does not count.
func TestWorkThatGoesOnUnseenIsLeftOut(t *testing.T) {
	var all []recording.Record
	sc := sim.Scenario{
		Name: "timeouts", Duration: 400 * time.Second, Seed: 2, Layers: []sim.Layer{workers(10, 50*time.Millisecond, "lognormal", 0.5)},
		Clients: []sim.Client{{Name: "users", Rate: "20..260@200s,20", Timeout: 300 * time.Millisecond}},
	}
	if _, err := sim.Run(t.Context(), sc, func(r trace.Record) { all = append(all, recorded.FromTrace(r)) }, nil); err != nil {
		t.Fatal(err)
	}
	a := of(t, all, Options{})
	wantNear(t, "knee", a.Knee, 10)
	if a.Unwanted == 0 || a.WastedShare == 0 || len(a.Doubts) != 1 || !strings.Contains(a.Doubts[0], "of the time is left out") {
		t.Errorf("%d, %v, %q", a.Unwanted, a.WastedShare, a.Doubts)
	}
}

// An objective makes the queue shorter, and needs more instances. If the work alone takes too long, it is
// said.
func TestAnObjective(t *testing.T) {
	records := seven().play(t, 1.2, 3)
	loose := of(t, records, Options{Quantile: 0.95, Target: time.Second, Load: 3})
	with := func(o Options) *Advice { // of the same fit
		a := *loose
		a.recommend(a.parts[len(a.parts)-1], o)
		return &a
	}
	tight, never := with(Options{Quantile: 0.95, Target: 250 * time.Millisecond, Load: 3}), with(Options{Quantile: 0.95, Target: 50 * time.Millisecond})
	if l, s := loose.Recommended, tight.Recommended; l.Queue <= s.Queue || l.Instances > s.Instances || !l.Feasible || !s.Feasible || l.Instances < 4 {
		t.Errorf("1 s: %+v; 250 ms: %+v", l, s)
	}
	if *never.Recommended != (Recommendation{}) {
		t.Errorf("50 ms: %+v", never.Recommended)
	}
	var b bytes.Buffer
	if err := never.Table(&b); err != nil || !strings.Contains(b.String(), "cannot be met") || strings.Contains(b.String(), "limit") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// A load at one level says nothing about the knee, whatever the level is.
func TestALoadAtOneLevel(t *testing.T) {
	for seed, share := range []float64{0.3, 0.7, 0.97} {
		s := seven()
		var records []recording.Record
		sc := sim.Scenario{Name: "level", Duration: 30 * time.Second, Seed: uint64(seed), Layers: s.layers, Clients: []sim.Client{{Name: "users", Rate: fmt.Sprint(share * s.capacity)}}}
		if _, err := sim.Run(t.Context(), sc, func(r trace.Record) { records = append(records, recorded.FromTrace(r)) }, nil); err != nil {
			t.Fatal(err)
		}
		a := of(t, records, Options{})
		if a.Recommended != nil || a.Knee != (Interval{}) || *a.Capacity.Low < share*s.capacity/2 || *a.Capacity.Low > s.capacity || !strings.Contains(a.Doubts[0], "stayed at one level") {
			t.Errorf("%v: %+v", share, a)
		}
	}
}

// A limit in front keeps the service below its knee: more load would tell no more.
func TestALimitInFront(t *testing.T) {
	records := seven().play(t, 0.4, 4)
	for i := range records {
		if i%10 == 0 {
			records[i].Outcome = recording.Rejected(weir.OverRate)
		}
	}
	if a := of(t, records, Options{}); !strings.Contains(a.Doubts[0], "a higher limit tells more") {
		t.Errorf("%q", a.Doubts)
	}
}

// The same recording gives the same advice.
func TestAdviceIsDeterministic(t *testing.T) {
	var texts [2]bytes.Buffer
	for i := range texts {
		if err := of(t, seven().play(t, 1.1, 4), Options{Seed: 5}).Table(&texts[i]); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0].String() != texts[1].String() {
		t.Errorf("%s\n%s", &texts[0], &texts[1])
	}
	for _, want := range []string{"knee", "requests in flight  (", "capacity", "recommended", "instances"} {
		if !strings.Contains(texts[0].String(), want) {
			t.Errorf("%q is not in\n%s", want, &texts[0])
		}
	}
}

func TestATextWithoutAKnee(t *testing.T) {
	var b bytes.Buffer
	if err := of(t, seven().play(t, 0.4, 4), Options{}).Table(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"knee          at least 2", "The load never came near the knee: it is at least 2"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, &b)
		}
	}
}
