package sim_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/sim"
)

// paced is ten calls a second, evenly, for ten seconds, of which a rate admits five a
// second.
func paced(r sim.Rate, timeout time.Duration) sim.Scenario {
	sc := scene(ms, timeout)
	r.PerSecond = 5
	sc.Duration = 30 * time.Second
	sc.Layers[0].Guard = &sim.Guard{Rate: &r}
	return sc
}

// Without MaxWait, every request is admitted at its turn, and the last waits for the
// longest time.
func TestRateTurns(t *testing.T) {
	r := run(t, paced(sim.Rate{Burst: 2}, 0))
	g := r.Layers[0].Guard
	expect(t, "good", r.Totals.Good, 100)
	expect(t, "admitted", g.Admitted, 100)
	if most := r.Latency.Max; most < 9400*ms || most > 9900*ms { // (100 - 2) / 5 s - 9.9 s
		t.Errorf("the last has waited for %v: want about 9.7s", most)
	}
	if g.Waiting != 0 || g.Inflight != 0 {
		t.Errorf("%+v: want nobody left", *g)
	}
}

// A request with a turn after MaxWait is refused at once or, with Mute, after MaxWait.
// The same requests are admitted.
func TestRateRefuses(t *testing.T) {
	said := run(t, paced(sim.Rate{Burst: 2, MaxWait: 350 * ms}, 0))
	mute := run(t, paced(sim.Rate{Burst: 2, MaxWait: 350 * ms, Mute: true}, 0))
	// Two at first, one each 200 ms until 9.9 s + 350 ms.
	expect(t, "good", said.Totals.Good, 53)
	expect(t, "refused", said.Totals.Rejected, 47)
	expect(t, "over the limit", said.Layers[0].Guard.OverLimit, 47)
	expect(t, "overdue", mute.Layers[0].Guard.Overdue, 47)
	if !reflect.DeepEqual(said.Latency, mute.Latency) || !reflect.DeepEqual(said.Totals, mute.Totals) {
		t.Errorf("%+v %+v: want %+v %+v", mute.Totals, mute.Latency, said.Totals, said.Latency)
	}
	if said.Latency.Max > 352*ms || said.Rejections.Max != 0 || mute.Rejections.P50 < 346*ms || mute.Rejections.Max > 354*ms {
		t.Errorf("%v in, %v and %v refused: want 350ms at most, 0, and 350ms", said.Latency.Max, said.Rejections.Max, mute.Rejections)
	}
}

// A caller that leaves gives its token back.
func TestRateCallersLeave(t *testing.T) {
	r := run(t, paced(sim.Rate{Burst: 1}, 550*ms))
	g := r.Layers[0].Guard
	if g.Cancelled == 0 || g.Admitted+g.Cancelled != 100 || g.Waiting != 0 {
		t.Errorf("%+v: want all of 100 admitted or cancelled, some cancelled", *g)
	}
	if r.Totals.Good < 48 || r.Totals.Good > 53 {
		t.Errorf("%d good: want about 50, as if those who left had never come", r.Totals.Good)
	}
}
