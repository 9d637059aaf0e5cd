package server_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func (d desk) Assign(r decider.LeafReport) decider.Assignment {
	d.t.Helper()
	got, err := d.Server.Assign(context.Background(), r)
	if err != nil {
		d.t.Error(err)
	}
	return got
}

// converge lets leaves report a number of times, a second apart, and returns their rates.
func (d desk) converge(n int, leaves ...decider.LeafReport) []float64 {
	has := make([]float64, len(leaves))
	for range n {
		for i, r := range leaves {
			r.Has = has[i]
			has[i] = d.Assign(r).Rate
		}
		time.Sleep(time.Second)
	}
	return has
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestAssign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("all", quota(100, time.Second, "")))
		time.Sleep(server.DefaultAssignmentTTL)
		got := d.converge(4, decider.LeafReport{Key: "k", Leaf: "a", Wants: 1000}, decider.LeafReport{Key: "k", Leaf: "b", Wants: 20},
			decider.LeafReport{Key: "other", Leaf: "a", Wants: 1000})
		if !near(got[0], 80) || !near(got[1], 20) || !near(got[2], 100) {
			t.Errorf("assigned %v, want 80, 20 and 100", got)
		}
		got = d.converge(1, decider.LeafReport{Key: "k", Leaf: "c", Wants: 10})
		if got[0] != 0 {
			t.Errorf("a third leaf has %v at once", got[0])
		}
	})
}

// Leaves have what a process before this one assigned, also if it has left a snapshot.
func TestAssignLearnsAfterARestore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := one("all", quota(100, time.Second, ""))
		d := newDesk(t, server.Config{}, rules)
		time.Sleep(time.Hour)
		next, _ := d.next(server.Config{Rules: d.Rules()}, d.snapshot())
		if got := next.Assign(decider.LeafReport{Key: "k", Leaf: "old", Wants: 100, Has: 70}); got.Rate != 70 || got.Learning {
			t.Errorf("a leaf that has 70 gets %+v", got)
		}
		if got := next.Assign(decider.LeafReport{Key: "k", Leaf: "new", Wants: 10}); !got.Learning || got.Rate != 0 {
			t.Errorf("a new leaf gets %+v", got)
		}
		time.Sleep(server.DefaultAssignmentTTL)
		if got := next.Assign(decider.LeafReport{Key: "k", Leaf: "new", Wants: 10}); got.Learning || got.Rate == 0 {
			t.Errorf("a time to live later, a new leaf gets %+v", got)
		}
	})
}

func TestAssignLearns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{AssignmentTTL: 10 * time.Second}, one("all", quota(100, time.Second, "")))
		if got := d.Assign(decider.LeafReport{Key: "k", Leaf: "new", Wants: 10}); !got.Learning || got.Rate != 0 {
			t.Errorf("a leaf without an assignment gets %+v while the server learns", got)
		}
		if got := d.Assign(decider.LeafReport{Key: "k", Leaf: "old", Wants: 100, Has: 70}); got.Learning || !near(got.Rate, 70) || got.TTL != 10*time.Second {
			t.Errorf("a leaf with 70 gets %+v while the server learns", got)
		}
		time.Sleep(10 * time.Second)
		if got := d.Assign(decider.LeafReport{Key: "k", Leaf: "new", Wants: 10}); got.Learning || got.Rate < 10 {
			t.Errorf("after it has learnt: %+v", got)
		}
	})
}

func TestAssignCharges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("all", quota(10, time.Hour, "")))
		d.Assign(decider.LeafReport{Key: "k", Leaf: "a", Used: 7})
		var v decider.Verdict
		for i, want := range []bool{true, true, true, false} {
			if d.Decide(&decider.Request{Key: "k", N: 1}, &v); v.OK != want {
				t.Errorf("request %d beside a leaf that has used 7 of 10: %v", i+1, v.OK)
			}
		}
		d.Assign(decider.LeafReport{Key: "k", Leaf: "a", Used: math.MaxInt})
		time.Sleep(2 * time.Hour)
		if d.Decide(&decider.Request{Key: "k", N: 1}, &v); !v.OK {
			t.Error("the debt exceeds the limit")
		}
	})
}

func TestAssignFollowsRules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shadow := one("shadow", quota(1, time.Second, ""))
		shadow.Mode = config.Shadow
		wide := one("wide", quota(50, time.Second, ""))
		wide.Per = config.PerRule
		d := newDesk(t, server.Config{Rules: &config.Rules{Apply: config.All, Unmatched: "deny", Rules: []config.Rule{shadow, wide, {Name: "k", Glob: "k*", Quota: quota(30, time.Second, "")}}}})
		time.Sleep(server.DefaultAssignmentTTL)
		if got := d.converge(3, decider.LeafReport{Key: "k", Leaf: "a", Wants: 100}); !near(got[0], 30) {
			t.Errorf("the smallest of 50 and 30, without the shadow: %v", got)
		}
		if got := d.converge(3, decider.LeafReport{Key: "j", Leaf: "b", Wants: 100}); got[0] >= 50 {
			t.Errorf("a rule for all keys gives another leaf %v", got)
		}
		if err := d.Reload(&config.Rules{Unmatched: "deny", Rules: []config.Rule{{Name: "k", Glob: "k*", Quota: quota(10, time.Second, "")}}}); err != nil {
			t.Fatal(err)
		}
		if got := d.Assign(decider.LeafReport{Key: "k", Leaf: "a", Wants: 100, Has: 30}); !near(got.Rate, 10) {
			t.Errorf("after a reload: %+v", got)
		}
		if got := d.Assign(decider.LeafReport{Key: "none", Leaf: "a"}); got.Unlimited || got.Rate != 0 {
			t.Errorf("without a rule, and unmatched: deny: %+v", got)
		}
		if err := d.Reload(&config.Rules{}); err != nil {
			t.Fatal(err)
		}
		if got := d.Assign(decider.LeafReport{Key: "none", Leaf: "a"}); !got.Unlimited {
			t.Errorf("without a rule: %+v", got)
		}
	})
}

func TestAssignmentsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("all", quota(10, time.Hour, "")))
		var err error
		n := 0
		for ; err == nil && n < 200_000; n++ {
			_, err = d.Server.Assign(context.Background(), decider.LeafReport{Key: fmt.Sprint("k", n%50_000), Leaf: fmt.Sprint("l", n)})
		}
		if err != decider.ErrLeaves || n != 100_001 {
			t.Fatalf("after %d assignments: %v", n, err)
		}
		if _, err := d.Server.Assign(context.Background(), decider.LeafReport{Key: "k0", Leaf: "l0"}); err != nil {
			t.Errorf("a leaf that has an assignment: %v", err)
		}
		time.Sleep(server.DefaultAssignmentTTL)
		d.Assign(decider.LeafReport{Key: "fresh", Leaf: "fresh"})
		if _, err := d.Server.Assign(context.Background(), decider.LeafReport{Key: "k", Leaf: "l", Wants: math.NaN()}); err == nil {
			t.Error("no error about NaN")
		}
	})
}
