package fleet_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/fleet"
)

// steady is a fleet of which the leaves want twice the limit, unequally.
func steady(leaves int) fleet.Scenario {
	return fleet.Scenario{
		Name: "steady", Duration: 40 * time.Second, Warmup: 20 * time.Second, Seed: 1,
		Fleet:   fleet.Fleet{Leaves: leaves},
		Keys:    []fleet.Key{{Name: "api", Rate: 100 * leaves, Burst: 100 * leaves}},
		Demand:  []fleet.Demand{{Name: "api", Rate: float64(200 * leaves), LeafSkew: 0.8}},
		Network: fleet.Network{Delay: dist.ServiceTime{Mean: 2 * time.Millisecond, Distribution: "lognormal", CV: 1}},
	}
}

func run(t *testing.T, sc fleet.Scenario) fleet.Result {
	t.Helper()
	r, err := fleet.Run(t.Context(), sc, nil)
	testrig.Must(t, err)
	return r
}

// all are faults of each kind.
func all(sc fleet.Scenario) fleet.Scenario {
	sc.Duration, sc.Warmup, sc.Network.Loss = 20*time.Second, 5*time.Second, 0.05
	sc.Fleet.TTL, sc.Fleet.Away, sc.Fleet.Watch = 4*time.Second, "share", []int{1}
	sc.Keys = append(sc.Keys, fleet.Key{Name: "many", Count: 3, Rate: 100, Burst: 10})
	sc.Demand = append(sc.Demand, fleet.Demand{Key: "many", Rate: 400, Arrivals: "even", On: time.Second, Off: time.Second, KeySkew: 1})
	sc.Demand[0].Changes = []fleet.Change{{At: 9 * time.Second, Factor: 15, Group: fleet.Group{First: 3, Leaves: 1}}}
	sc.Faults = []fleet.Fault{
		{Kind: fleet.Start, At: 2 * time.Second, Group: fleet.Group{First: 8, Leaves: 1}},
		{Kind: fleet.Partition, At: 6 * time.Second, For: 5 * time.Second, Group: fleet.Group{Leaves: 2}},
		{Kind: fleet.Upstream, At: 12 * time.Second, For: time.Second},
		{Kind: fleet.Restart, At: 14 * time.Second, Over: 2 * time.Second, For: time.Second, Graceful: true, Group: fleet.Group{Every: 2}},
		{Kind: fleet.Stop, At: 18 * time.Second, Group: fleet.Group{First: 9}},
	}
	return sc
}

// The same seed gives the same bytes, another seed gives others.
func TestDeterminism(t *testing.T) {
	for _, policy := range fleet.Policies {
		var results [3]string
		for i, seed := range []uint64{1, 1, 2} {
			sc := all(steady(10))
			sc.Fleet.Policy, sc.Seed = policy, seed
			text, err := json.Marshal(run(t, sc))
			testrig.Must(t, err)
			results[i] = string(text)
		}
		if results[0] != results[1] {
			t.Errorf("%s: the same seed gives\n%s\nand\n%s", policy, results[0], results[1])
		}
		if results[0] == results[2] {
			t.Errorf("%s: another seed gives the same", policy)
		}
	}
}

// The acceptance figures of leaf mode. A limit of an average of 100 a second and leaf keeps the noise
// of Poisson arrivals low.
func TestSteadySkewedDemand(t *testing.T) {
	for _, leaves := range []int{10, 100, 1000} {
		t.Run(fmt.Sprint(leaves), func(t *testing.T) {
			r := run(t, steady(leaves))
			if s := r.Steady; s.Use < 0.98 || s.Over1 > 0.01 || s.Over10 > 0.01 || s.Decisions["assigned"] < 0.999 {
				t.Errorf("%+v: want a use of 98 %%, and 1 %% of overshoot", s)
			}
			if r.Fair.Mean > 0.02 || r.Fair.Worst > 0.1 {
				t.Errorf("%+v: want max-min fair shares within 2 %%", r.Fair)
			}
		})
	}
}

// Leaves that together want half of the limit get all that they want.
func TestCalmDemandIsServed(t *testing.T) {
	for _, leaves := range []int{10, 300} {
		sc := steady(leaves)
		sc.Keys[0].Rate, sc.Keys[0].Burst, sc.Demand[0].Rate = 20*leaves, 10*leaves, 10*float64(leaves)
		if r := run(t, sc); r.Steady.Use < 0.98 || r.Fair.Worst > 0.1 {
			t.Errorf("%d leaves: use %v, %+v: want all that they want", leaves, r.Steady.Use, r.Fair)
		}
	}
}

// Without the noise of arrivals, each leaf has its share.
func TestEvenDemandIsShared(t *testing.T) {
	sc := steady(100)
	sc.Demand[0].Arrivals = "even"
	if r := run(t, sc); r.Fair.Worst > 0.02 || r.Steady.Use < 0.99 {
		t.Errorf("%+v, use %v: want all shares within 2 %%", r.Fair, r.Steady.Use)
	}
}

func TestJumpIsServedWithinTwoIntervals(t *testing.T) {
	for seed := range uint64(5) {
		sc := steady(100)
		sc.Seed = seed
		sc.Demand[0].Rate = 12_000
		sc.Demand[0].Changes = []fleet.Change{{At: 30 * time.Second, Factor: 15, Group: fleet.Group{First: 80, Leaves: 1}}}
		if j := run(t, sc).Jumps[0]; j.Served < 0 || j.Served > 2*time.Second || j.Share < 300 {
			t.Errorf("seed %d: %+v: want it served within two intervals of a second", seed, j)
		}
	}
}

func TestUpstreamAwayForAMinute(t *testing.T) {
	for _, away := range []string{"share", "deny"} {
		sc := steady(20)
		sc.Duration, sc.Fleet.Away = 120*time.Second, away
		sc.Faults = []fleet.Fault{{Kind: fleet.Upstream, At: 30 * time.Second, For: time.Minute}}
		r := run(t, sc)
		if f := r.Faults[0]; f.Over1 > 0 || f.Over10 > 0 || away == "share" && f.Use < 0.85 || f.Decisions["assigned"] > 0.05 {
			t.Errorf("%s: %+v: want decisions, and no more than the limit", away, f)
		}
		// It climbs back.
		if last := r.Series[len(r.Series)-1]; last.Allowed < 0.95*r.Limit || last.Decisions["assigned"] < 0.99*last.Offered {
			t.Errorf("%s: at the end %+v", away, last)
		}
	}
}

// While some leaves are assigned a rate and others ask about each request, all keep to the limit.
func TestLeavesThatAskBesideAssignments(t *testing.T) {
	for seed := range uint64(4) {
		sc := steady(10)
		sc.Seed, sc.Duration, sc.Warmup = seed, 30*time.Second, time.Second
		sc.Keys[0].Rate, sc.Keys[0].Burst, sc.Demand[0].Rate = 10_000, 1000, 20_000
		sc.Faults = []fleet.Fault{{Kind: fleet.Restart, At: 20 * time.Second, Over: 4 * time.Second, For: 500 * time.Millisecond, Graceful: true, Group: fleet.Group{Every: 2}}}
		if r := run(t, sc); r.Total.Over1 > 0.01 || r.Total.Over10 > 0.01 || r.Total.Use < 0.93 {
			t.Errorf("seed %d: %+v: want at most 1 %% over the limit", seed, r.Total)
		}
	}
}

// Leaves that are cut off use their safe shares, which the upstream keeps for them.
func TestPartitionWithSafeShares(t *testing.T) {
	for seed := range uint64(4) {
		sc := steady(20)
		sc.Seed, sc.Duration, sc.Fleet.Away, sc.Keys[0].Burst = seed, 100*time.Second, "share", 500
		sc.Faults = []fleet.Fault{{Kind: fleet.Partition, At: 25 * time.Second, For: 50 * time.Second, Group: fleet.Group{Leaves: 8}}}
		r := run(t, sc)
		if f := r.Faults[0]; f.Over1 > 0.01 || f.Over10 > 0.01 || f.Use < 0.85 || f.Decisions["share"] < 0.1 {
			t.Errorf("seed %d: %+v: want shares, and no more than the limit", seed, f)
		}
		if last := r.Series[len(r.Series)-1]; last.Decisions["assigned"] < 0.99*last.Offered {
			t.Errorf("seed %d: at the end %+v", seed, last)
		}
	}
}

// A leaf that is cut off keeps to its rule, and the others get its share.
func TestPartition(t *testing.T) {
	sc := steady(20)
	sc.Duration = 60 * time.Second
	sc.Faults = []fleet.Fault{{Kind: fleet.Partition, At: 25 * time.Second, For: 20 * time.Second, Group: fleet.Group{Leaves: 5}}}
	r := run(t, sc)
	if f := r.Faults[0]; f.Over1 > 0 || f.Over10 > 0 || f.Use < 0.9 || f.Decisions["rule"] == 0 {
		t.Errorf("%+v: want no more than the limit", f)
	}
}

// The alternatives do as their authors say.
func TestAlternatives(t *testing.T) {
	figures := map[string]fleet.Result{}
	for _, policy := range fleet.Policies[1:] {
		sc := steady(100)
		sc.Fleet.Policy = policy
		figures[policy] = run(t, sc)
	}
	for _, c := range []struct {
		policy          string
		least, most     float64 // use
		overshoot, fair float64 // at most
	}{
		{"exact", 0.999, 1.001, 0, 100},
		{"static", 0.7, 0.95, 0, 1},
		{"optimistic", 0.98, 1.06, 0.06, 100},
		{"doorman", 0.95, 1, 0, 1},
		{"ideal", 0.98, 1, 0, 0.05},
	} {
		r := figures[c.policy]
		if r.Steady.Use < c.least || r.Steady.Use > c.most || r.Steady.Over1 > c.overshoot || r.Fair.Worst > c.fair {
			t.Errorf("%s: %+v, %+v", c.policy, r.Steady, r.Fair)
		}
	}
}

// A stopped run, and one that goes on, count each request once.
func TestStepsAddUp(t *testing.T) {
	sc := all(steady(10))
	r := run(t, sc)
	offered, decided := 0.0, 0.0
	for _, st := range r.Series {
		offered += st.Offered
		for _, n := range st.Decisions {
			decided += n
		}
		if st.Allowed > st.Offered+1e-9 {
			t.Errorf("%+v: more allowed than offered", st)
		}
	}
	if d := offered - decided; d > 1e-6 || d < -1e-6 {
		t.Errorf("%v offered, %v decided", offered, decided)
	}
	if last := r.Series[len(r.Series)-1]; last.Leaves != 9 {
		t.Errorf("%d leaves at the end: want 9", last.Leaves)
	}
}
