package server_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A leafUse is a report of a leaf.
type leafUse struct {
	name string
	leaf.Report
}

// exchange answers an exchange of a leaf. The answer must not fail.
func (d desk) exchange(x leaf.Exchange) decider.LeafAnswer {
	d.t.Helper()
	var got decider.LeafAnswer
	if err := d.Exchange(context.Background(), &decider.LeafExchange{Exchange: x}, &got); err != nil {
		d.t.Error(err)
	}
	return got
}

// assign answers one report of a leaf.
func (d desk) assign(name string, r leaf.Report) leaf.Assignment {
	d.t.Helper()
	return d.exchange(leaf.Exchange{Leaf: name, Reports: []leaf.Report{r}}).Assignments[0]
}

// converge lets leaves report a number of times, a second apart, and returns their rates.
func (d desk) converge(n int, uses ...leafUse) []float64 {
	has := make([]float64, len(uses))
	for range n {
		for i, u := range uses {
			u.Has = has[i]
			has[i] = d.assign(u.name, u.Report).Rate
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
		got := d.converge(4, leafUse{"a", leaf.Report{Key: "k", Wants: 1000}}, leafUse{"b", leaf.Report{Key: "k", Wants: 20}},
			leafUse{"a", leaf.Report{Key: "other", Wants: 1000}})
		if math.Abs(got[0]-80) > 1 || got[1] < 20 || got[1] > 21 || !near(got[2], 100) {
			t.Errorf("assigned %v, want 80, 20 and 100", got)
		}
		got = d.converge(1, leafUse{"c", leaf.Report{Key: "k", Wants: 10}})
		if got[0] > 1e-6 {
			t.Errorf("a third leaf has %v at once", got[0])
		}
	})
}

func TestAssignLearns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{AssignmentTTL: 10 * time.Second}, one("all", quota(100, time.Second, "")))
		if got := d.assign("new", leaf.Report{Key: "k", Wants: 10}); !got.Learning || got.Rate != 0 {
			t.Errorf("a leaf without an assignment gets %+v while the server learns", got)
		}
		if got := d.assign("old", leaf.Report{Key: "k", Wants: 100, Has: 70}); got.Learning || !near(got.Rate, 70) || got.Error != "" {
			t.Errorf("a leaf with 70 gets %+v while the server learns", got)
		}
		time.Sleep(reportEvery)
		if got := d.assign("new", leaf.Report{Key: "k", Wants: 10}); got.Learning || got.Rate < 10 {
			t.Errorf("after all have reported: %+v", got)
		}
	})
}

func TestAssignCharges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("all", quota(10, time.Hour, "")))
		d.assign("a", leaf.Report{Key: "k", Used: 7})
		var v decider.Verdict
		for i, want := range []bool{true, true, true, false} {
			if d.Decide(&decider.Request{Key: "k", N: 1}, &v); v.OK != want {
				t.Errorf("request %d beside a leaf that has used 7 of 10: %v", i+1, v.OK)
			}
		}
		d.assign("a", leaf.Report{Key: "k", Used: math.MaxInt})
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
		if got := d.converge(3, leafUse{"a", leaf.Report{Key: "k", Wants: 100}}); !near(got[0], 30) {
			t.Errorf("the smallest of 50 and 30, without the shadow: %v", got)
		}
		if got := d.converge(3, leafUse{"b", leaf.Report{Key: "j", Wants: 100}}); got[0] >= 50 {
			t.Errorf("a rule for all keys gives another leaf %v", got)
		}
		if err := d.Reload(&config.Rules{Unmatched: "deny", Rules: []config.Rule{{Name: "k", Glob: "k*", Quota: quota(10, time.Second, "")}}}); err != nil {
			t.Fatal(err)
		}
		if got := d.assign("a", leaf.Report{Key: "k", Wants: 100, Has: 30}); !near(got.Rate, 10) {
			t.Errorf("after a reload: %+v", got)
		}
		if got := d.assign("a", leaf.Report{Key: "none"}); got.Unlimited || got.Rate != 0 {
			t.Errorf("without a rule, and unmatched: deny: %+v", got)
		}
		if err := d.Reload(&config.Rules{}); err != nil {
			t.Fatal(err)
		}
		if got := d.assign("a", leaf.Report{Key: "none"}); !got.Unlimited {
			t.Errorf("without a rule: %+v", got)
		}
	})
}

// What is kept for leaves that are lost makes room for other leaves, the first lost first.
func TestLostLeavesMakeRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{MaxAssignments: 10}, one("all", quota(10, time.Second, "")))
		lose := func(name string, keys int) {
			x := leaf.Exchange{Leaf: name, Share: true}
			for i := range keys {
				x.Reports = append(x.Reports, leaf.Report{Key: fmt.Sprint(i), Wants: 100})
			}
			d.exchange(x)
			time.Sleep(2 * server.DefaultAssignmentTTL)
		}
		lose("a", 4)
		lose("b", 4)
		held := func() int { return d.Stats().Leaves.Assignments }
		for i, want := range []int{9, 10, 7, 8, 9} { // the third has the place of one of a
			if got := d.assign("c", leaf.Report{Key: fmt.Sprint("new", i)}); got.Error != "" || held() != want {
				t.Errorf("key %d: %+v, and there are %d assignments, want %d", i, got, held(), want)
			}
		}
		if got := d.assign("c", leaf.Report{Key: "6"}); got.Error == "" || held() != 9 {
			t.Errorf("more than half of all: %+v, %d assignments", got, held())
		}
	})
}

// manyKeys is an exchange of a leaf about its own keys.
func manyKeys(name string, n int) leaf.Exchange {
	x := leaf.Exchange{Leaf: name, Share: true}
	for i := range n {
		x.Reports = append(x.Reports, leaf.Report{Key: fmt.Sprint(name, i), Wants: 1})
	}
	return x
}

// A leaf with many assignments makes room, before the next lost leaf loses what is kept for it.
func TestOneLostLeafMakesRoomAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{MaxAssignments: 10_000}, one("all", quota(10, time.Second, "")))
		for _, name := range []string{"a", "b"} {
			d.exchange(manyKeys(name, 4000))
			time.Sleep(2 * server.DefaultAssignmentTTL)
		}
		d.exchange(manyKeys("c", 5000)) // 2,000 are free, and 3,000 come of a
		check(t, "leaves: b and c", d.Stats().Leaves.Leaves, 2)
		check(t, "refused", d.Stats().Leaves.Refused, 0)
	})
}

// A leaf that was lost and then leaves is counted out once, although its assignments are taken back later.
func TestLostLeafLeavesOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{MaxAssignments: 20_000}, one("all", quota(10, time.Second, "")))
		d.exchange(manyKeys("a", 10_000))
		time.Sleep(2 * server.DefaultAssignmentTTL)
		d.exchange(manyKeys("b", 10_000))
		d.exchange(leaf.Exchange{Leaf: "a", Leave: true})
		check(t, "leaves: b and c", d.exchange(manyKeys("c", 5000)).Leaves, 2) // with c, all is full again
	})
}

func TestAssignmentsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{MaxAssignments: 100}, one("all", quota(10, time.Hour, "")))
		report := func(leafName string, key int) string {
			return d.assign(leafName, leaf.Report{Key: fmt.Sprint(key)}).Error
		}
		full := decider.ErrLeaves.Error()
		for key := range 60 {
			if got, want := report("a", key), map[bool]string{true: full}[key >= 50]; got != want {
				t.Fatalf("key %d of a leaf that can have 50 of 100: %q", key, got)
			}
		}
		for key := range 60 {
			if got, want := report(fmt.Sprint("b", key), key), map[bool]string{true: full}[key >= 50]; got != want {
				t.Fatalf("assignment %d of 100: %q", 51+key, got)
			}
		}
		if got := report("a", 3); got != "" {
			t.Errorf("a leaf that has an assignment: %s", got)
		}
		time.Sleep(2 * server.DefaultAssignmentTTL)
		if got := report("c", 1000); got != "" {
			t.Errorf("after the others have ended: %s", got)
		}
		if got := d.assign("c", leaf.Report{Key: "k", Wants: math.NaN()}); got.Error == "" {
			t.Error("no error about NaN")
		}
	})
}
