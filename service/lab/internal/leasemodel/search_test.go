package leasemodel

import (
	"slices"
	"strings"
	"testing"
)

// holds checks that no fault within the bounds lets holders have more units than the limit, or loses a unit for ever.
func (c Config) holds(t *testing.T) {
	t.Helper()
	if r := c.Search(Limit); r.Why != "" || r.Most != Limit {
		t.Errorf("%+v: %v", c, r)
	} else {
		t.Logf("%+v: %d states", c, r.States)
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []Config{{Stops: 1, Changes: 1}, {Changes: 2, Hold: true}, {Crashes: 1, Changes: 1}, {Changes: 2, Hold: true, Overlap: true}} {
		c.holds(t)
	}
}

// The search finds the defect that package ring had: a claim that fails, and a change after it.
func TestDefectIsFound(t *testing.T) {
	r := Config{Crashes: 1, Changes: 2, ForgetMisses: true}.Search(Limit)
	t.Log(r)
	want := []string{"Acquire: A grants", "B owns the slot", "A is killed", "claimFrom: A has ended", "C owns the slot", "B hands over to C", "Acquire: C grants"}
	if r.Most <= Limit || !slices.ContainsFunc(r.Trace, func(s string) bool { return strings.Contains(s, "ring.claimFrom") }) {
		t.Fatalf("want a trace such as %q", want)
	}
	for _, step := range r.Trace {
		if len(want) > 0 && strings.Contains(step, want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("the trace has no %q", want)
	}
}

// The search finds that an owner answers a claim, and gets the state of the owner before it afterwards.
func TestClaimsWithoutEpochs(t *testing.T) {
	r := Config{Changes: 2, Overlap: true, NoEpochs: true}.Search(Limit)
	t.Log(r)
	if r.Most <= Limit {
		t.Error("want a lease that is granted twice")
	}
}

// Two owners that do not know of each other grant the limit once each, and no more.
func TestTwoOwners(t *testing.T) {
	c := Config{Stops: 1, Disagree: true}
	if r := c.Search(2 * Limit); r.Why != "" || r.Most != 2*Limit {
		t.Errorf("%+v: %v", c, r)
	} else {
		t.Logf("%+v: %d states, at most %d units", c, r.States, r.Most)
	}
}
