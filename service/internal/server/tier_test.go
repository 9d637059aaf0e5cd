package server_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// parsed returns rules of a file.
func parsed(t *testing.T, text string) *config.Rules {
	t.Helper()
	rules, err := config.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// newPair returns an upstream that has learnt, and a tier of it.
func newPair(t *testing.T, text string, cfg server.TierConfig) (up desk, z *zone) {
	t.Helper()
	rules := parsed(t, text)
	up = newDesk(t, server.Config{Rules: rules, MaxLimit: 1000})
	time.Sleep(server.DefaultAssignmentTTL)
	return up, newZone(t, up.Server, "zone", rules, cfg)
}

// assign asks for tokens of a key until it has an assignment.
func (z *zone) assign(key string) {
	z.t.Helper()
	for range 10 {
		if z.take(key, 1).Step == decider.Assigned {
			time.Sleep(time.Second) // the bucket fills
			return
		}
		time.Sleep(time.Second)
	}
	z.t.Fatalf("%q has no assignment", key)
}

// A key is first asked about, then assigned, and no request waits for the upstream any more.
func TestTierLadder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, z := newPair(t, `rules: [{name: pages, glob: "page:*", rate: 100/s}]`, server.TierConfig{Leaves: 4})
		if v := z.take("page:1", 1); !v.OK || v.Step != decider.Exact || v.Rule.Name != "pages" || v.Answers[0].Remaining != 99 {
			t.Errorf("a key without an assignment: %+v", v)
		}
		z.assign("page:1")
		asked, began := z.wire.asked.Load(), time.Now()
		v := z.take("page:1", 1)
		if !v.OK || v.Step != decider.Assigned || v.Step.Degraded() || v.Rule.Name != "pages" || len(v.Answers) != 1 || v.Answers[0].Rule.Name != "pages" {
			t.Errorf("a key with an assignment: %+v", v)
		}
		if time.Since(began) != 0 || z.wire.asked.Load() != asked {
			t.Error("the decision has waited for the upstream")
		}
		if v := z.take("page:1", 101); v.OK || v.Reason != weir.OverBurst || v.RetryAfter != weir.Never {
			t.Errorf("more than the burst: %+v", v)
		}
		z.wire.cut.Store(true)
		time.Sleep(8 * time.Second) // an exchange fails
		if v := z.take("page:1", 1); !v.OK || v.Step != decider.Last || !v.Step.Degraded() {
			t.Errorf("the upstream is away: %+v", v)
		}
		for range 60 { // the key is in use
			time.Sleep(time.Second)
			v = z.take("page:1", 1)
		}
		if !v.OK || v.Step != decider.Share {
			t.Errorf("the last assignment has ended: %+v", v)
		}
		n := 0
		for range 100 {
			if z.take("page:1", 1).OK {
				n++
			}
		}
		if n < 24 || n > 25 {
			t.Errorf("the share of one of 4 leaves has a burst of %d, want 25", n)
		}
		if v := z.take("page:2", 1); !v.OK || v.Step != decider.Share {
			t.Errorf("another key while the upstream is away: %+v", v)
		}
	})
}

// A rule says how its keys are decided without an assignment, and without the upstream.
func TestTierRuleOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, z := newPair(t, `rules:
- {name: deny, key: deny, rate: 100/s, away: deny, unassigned: deny}
- {name: allow, key: allow, rate: 100/s, away: allow, unassigned: share}
- {name: slow, key: slow, rate: 60/m}
- {name: none, key: none, rate: 0/s}
- {name: trial, key: trial, rate: 1/h, mode: shadow}
`, server.TierConfig{Leaves: 4})
		for key, want := range map[string]struct {
			ok   bool
			step decider.Step
		}{
			"deny": {false, decider.Assigned}, "allow": {true, decider.Assigned}, "slow": {true, decider.Exact}, "none": {false, decider.Exact},
			"trial": {true, decider.Exact}, "no rule": {true, decider.Exact},
		} {
			v := z.take(key, 1)
			if v.OK != want.ok || v.Step != want.step || !want.ok && v.Reason != weir.OverRate && v.Reason != weir.OverBurst {
				t.Errorf("%s: %+v, want %+v", key, v, want)
			}
		}
		asked := z.wire.asked.Load()
		time.Sleep(10 * time.Second)
		z.take("slow", 1)
		if v := z.take("slow", 1); v.Step != decider.Exact || z.wire.asked.Load() < asked+2 {
			t.Errorf("a slow rule: %v, want that the upstream is asked about each request", v.Step)
		}
		z.wire.cut.Store(true)
		for range 40 {
			time.Sleep(time.Second)
			for _, key := range []string{"deny", "allow", "slow"} {
				z.take(key, 1)
			}
		}
		for key, want := range map[string]struct {
			ok   bool
			step decider.Step
			why  weir.Reason
		}{
			"deny": {false, decider.ByRule, weir.Closed}, "allow": {true, decider.ByRule, 0}, "none": {false, decider.Exact, weir.OverRate},
			"no rule": {true, decider.Exact, 0}, "trial": {true, decider.Exact, 0},
		} {
			if v := z.take(key, 1); v.OK != want.ok || v.Step != want.step || v.Reason != want.why && v.Reason != weir.OverBurst {
				t.Errorf("%s while the upstream is away: %+v, want %+v", key, v, want)
			}
		}
		time.Sleep(time.Minute)
		n := 0
		for range 60 {
			v := z.take("slow", 1)
			if v.OK {
				n++
			}
			if v.Step != decider.Share {
				t.Fatalf("a slow rule while the upstream is away: %+v", v)
			}
		}
		if n != 15 {
			t.Errorf("a slow rule: %d at once, want the share of 15", n)
		}
	})
}

// The node counts requests by the rules that decided, wherever that was.
func TestTierCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, z := newPair(t, `rules: [{name: fast, key: fast, rate: 20/s}, {name: slow, key: slow, rate: 2/h}]`, server.TierConfig{})
		z.assign("fast")
		time.Sleep(time.Second)
		given := z.given(0, time.Hour)
		for range 30 {
			z.take("fast", 1)
		}
		for range 5 {
			z.take("slow", 1)
		}
		st := z.Stats()
		fast, slow := st.Rules[0], st.Rules[1]
		if int(fast.Allowed) != given+12 || fast.Denied[weir.OverRate] != 18 { // a part is left for another leaf
			t.Errorf("fast: %d allowed, %v denied, want %d and 18", fast.Allowed, fast.Denied, given+12)
		}
		if slow.Allowed != 2 || slow.Denied[weir.OverRate] != 3 {
			t.Errorf("slow: %d allowed, %v denied, want 2 and 3", slow.Allowed, slow.Denied)
		}
		all := z.TierStats()
		if all.Decisions[decider.Assigned] < 30 || all.Decisions[decider.Exact] < 5 || all.Keys != 1 || all.Assigned != 1 || all.Asks < 5 || all.Away {
			t.Errorf("%+v", all)
		}
	})
}

// All keys of a rule with one bucket have one assignment.
func TestTierSingleBucket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, z := newPair(t, `rules: [{name: all, glob: "*", per: rule, rate: 100/s}]`, server.TierConfig{})
		z.assign("first")
		time.Sleep(10 * time.Second)
		n := 0
		for i := range 150 {
			if v := z.take(zoneName(i), 1); v.Step != decider.Assigned {
				t.Fatalf("%+v: want a decision by the assignment of the rule", v)
			} else if v.OK {
				n++
			}
		}
		if n != 62 { // a part is left for another leaf
			t.Errorf("%d of 150 keys at once, want the burst of 62", n)
		}
	})
}

// A batch that is all or nothing takes tokens of all or none, wherever they are.
func TestTierBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up, z := newPair(t, `rules: [{name: fast, glob: "fast*", rate: 20/s}, {name: slow, glob: "slow*", rate: 10/h}, {name: rest, glob: "*", rate: 1/h, mode: shadow}]`, server.TierConfig{Leaves: 2})
		z.assign("fast")
		time.Sleep(time.Second)
		verdicts := make([]decider.Verdict, 4)
		batch := func(all bool, fast, slow int) (bool, []decider.Verdict) {
			t.Helper()
			ok, err := z.Batch(t.Context(), []decider.Request{{Key: "fast", N: fast}, {Key: "slow", N: slow}, {Key: "slow2", N: 1}, {Key: "other", N: 1}}, all, verdicts)
			if err != nil {
				t.Error(err)
			}
			return ok, verdicts
		}
		if ok, v := batch(true, 5, 11); ok || v[0].OK || v[1].OK || v[2].OK || v[1].Reason != weir.OverBurst || v[0].Reason != 0 {
			t.Errorf("too much at the upstream: %v, %+v", ok, v)
		}
		if ok, v := batch(true, 21, 5); ok || v[0].OK || v[1].OK || v[0].Reason != weir.OverBurst {
			t.Errorf("too much of an assignment: %v, %+v", ok, v)
		}
		if ok, v := batch(true, 10, 8); !ok || !v[0].OK || !v[1].OK || v[0].Step != decider.Assigned || v[1].Step != decider.Exact || v[1].Answers[0].Remaining != 2 {
			t.Errorf("all tokens: %v, %+v", ok, v)
		}
		up.allows("slow", 2, 3)
		time.Sleep(2 * time.Hour)
		z.assign("fast")
		if ok, v := batch(false, 10, 11); ok || !v[0].OK || v[1].OK || !v[2].OK || !v[3].OK {
			t.Errorf("each for itself: %v, %+v", ok, v)
		}
		z.wire.cut.Store(true)
		time.Sleep(time.Hour)
		if ok, v := batch(true, 1, 6); ok || v[0].OK || v[2].OK || v[1].Step != decider.Share {
			t.Errorf("more than the share: %v, %+v", ok, v)
		}
		if ok, v := batch(true, 1, 5); !ok || v[1].Step != decider.Share || v[1].Answers[0].Remaining != 0 {
			t.Errorf("the share: %v, %+v", ok, v)
		}
	})
}

// While the upstream does not answer, few requests wait for it; the first that it answers ends that.
func TestTierProbes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, z := newPair(t, `rules: [{name: slow, glob: "*", rate: 1/s}]`, server.TierConfig{Timeout: 50 * time.Millisecond})
		z.wire.cut.Store(true)
		began := time.Now()
		for range 1000 {
			z.take("k", 1)
		}
		if took := time.Since(began); took != 150*time.Millisecond {
			t.Errorf("1000 requests have waited for %v, want 3 times 50 ms", took)
		}
		if len(z.told) != 1 || !errors.Is(z.told[0], errCut) || !z.TierStats().Away || !errors.Is(z.TierStats().Reason, errCut) {
			t.Errorf("told %v", z.told)
		}
		z.wire.cut.Store(false)
		time.Sleep(time.Second)
		if v := z.take("k", 1); v.Step != decider.Exact || len(z.told) != 2 || z.told[1] != nil || z.TierStats().Away || z.TierStats().Reason != nil {
			t.Errorf("back: %+v, told %v", v, z.told)
		}
	})
}

// A caller that leaves says nothing about the upstream.
func TestTierCallerLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, z := newPair(t, `rules: [{name: slow, glob: "*", rate: 1/s}]`, server.TierConfig{Timeout: time.Second})
		z.wire.cut.Store(true)
		for range 10 {
			ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
			var v decider.Verdict
			if err := z.Decide(ctx, &decider.Request{Key: "k", N: 1}, &v); err != context.DeadlineExceeded {
				t.Errorf("%v, want that of the context", err)
			}
			stop()
		}
		if len(z.told) > 0 {
			t.Errorf("told %v", z.told)
		}
	})
}
