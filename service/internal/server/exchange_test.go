package server_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/assign"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// needs exchanges without reports, and returns whether the leaf must report all.
func (d desk) needs(name string, held int) bool {
	d.t.Helper()
	x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name, Held: held}}
	got := d.exchange(x.Exchange)
	return got.NeedsResync(&x)
}

// learnt returns a desk that knows what leaves have.
func learnt(t *testing.T, cfg server.Config, rules ...config.Rule) desk {
	d := newDesk(t, cfg, rules...)
	time.Sleep(server.DefaultAssignmentTTL)
	return d
}

func TestExchangeRenewsAllAssignments(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, one("all", quota(100, time.Second, "")))
		d.exchange(leaf.Exchange{Leaf: "a", Reports: []leaf.Report{{Key: "k", Wants: 1000}, {Key: "j", Wants: 1000}}})
		for range 4 {
			time.Sleep(server.DefaultAssignmentTTL - time.Second)
			if d.needs("a", 2) {
				t.Error("the assignments are not known any more")
			}
		}
		time.Sleep(server.DefaultAssignmentTTL)
		if got := d.assign("b", leaf.Report{Key: "k", Wants: 10}); got.Rate < 10 {
			t.Errorf("after the end of a's assignment, b has %+v", got)
		}
		time.Sleep(server.DefaultAssignmentTTL)
		d.needs("b", 1)
		if !d.needs("a", 1) {
			t.Error("an assignment that has ended is known")
		}
	})
}

// A key that is not reported for 16 times to live ends, also if no rule limits it.
func TestSilentKeysEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, config.Rule{Name: "k", Glob: "k*", Quota: quota(100, time.Second, "")})
		d.exchange(leaf.Exchange{Leaf: "a", Reports: []leaf.Report{{Key: "k"}, {Key: "free"}}})
		for i := range 34 {
			if known, want := !d.needs("a", 2), i < 32; known != want {
				t.Errorf("after %d halves of a time to live: known: %v", i, known)
			}
			time.Sleep(server.DefaultAssignmentTTL / 2)
		}
	})
}

func TestResync(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := one("all", quota(100, time.Second, ""))
		d := learnt(t, server.Config{}, rules)
		if !d.needs("a", 1) || d.needs("a", 0) {
			t.Error("an unknown leaf must report what it has, and nothing else")
		}
		x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "a", Held: 2, Reports: []leaf.Report{{Key: "k", Has: 1}, {Key: "j", Has: 1}}}}
		if got := d.exchange(x.Exchange); got.NeedsResync(&x) {
			t.Error("it has reported all")
		}
		x.Held, x.Reports = 2, []leaf.Report{{Key: "k", Done: true}}
		if got := d.exchange(x.Exchange); got.NeedsResync(&x) {
			t.Error("a key was given back after the keys were counted")
		}
		if d.needs("a", 1) || !d.needs("a", 2) {
			t.Error("one key is left")
		}
		rules.Quota = quota(10, time.Second, "")
		must(t, d.Reload(&config.Rules{Rules: []config.Rule{rules}}))
		if !d.needs("a", 1) || d.needs("a", 1) {
			t.Error("after a reload, all keys must be reported once")
		}
		if got := d.assign("a", leaf.Report{Key: "j", Wants: 1000, Has: 5}); got.Rate != 10 || got.LimitRate != 10 {
			t.Errorf("after a reload: %+v", got)
		}
	})
}

func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, one("all", quota(100, time.Second, "")))
		d.exchange(leaf.Exchange{Leaf: "a", Reports: []leaf.Report{{Key: "k", Wants: 60}, {Key: "j", Wants: 10}}})
		if got := d.exchange(leaf.Exchange{Leaf: "a", Held: 2}); len(got.Watch) > 0 || got.NextMS != 5000 {
			t.Errorf("nothing is contended: %+v", got)
		}
		if got := d.assign("b", leaf.Report{Key: "k", Wants: 60}); !got.Contended || got.Leaves != 2 {
			t.Errorf("two leaves want 60 of 100 each: %+v", got)
		}
		for range 2 { // until it reports
			if got := d.exchange(leaf.Exchange{Leaf: "a", Held: 2}); !slices.Equal(got.Watch, []string{"k"}) || got.NextMS != 1000 {
				t.Errorf("the watched keys are %v, the next exchange in %d ms", got.Watch, got.NextMS)
			}
		}
		got := d.exchange(leaf.Exchange{Leaf: "a", Held: 2, Reports: []leaf.Report{{Key: "k", Wants: 60, Has: 80}}})
		if len(got.Watch) > 0 || got.NextMS != 100 || !near(got.Assignments[0].Rate, 50) {
			t.Errorf("a report of the watched key gets %+v", got)
		}
	})
}

// Keys of one bucket are leaves of their own.
func TestExchangeUnderARuleForAllKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		wide := one("wide", quota(100, time.Second, ""))
		wide.Per = config.PerRule
		d := learnt(t, server.Config{}, wide)
		got := d.converge(5, leafUse{"a", leaf.Report{Key: "k", Wants: 1000}}, leafUse{"a", leaf.Report{Key: "j", Wants: 20}}, leafUse{"b", leaf.Report{Key: "k", Wants: 1000}})
		if math.Abs(got[0]-40) > 1 || math.Abs(got[1]-20) > 1 || math.Abs(got[2]-40) > 1 {
			t.Errorf("assigned %v, want 40, 20 and 40", got)
		}
	})
}

func TestLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const keys = 5000
		d := learnt(t, server.Config{}, one("all", quota(100, time.Minute, "")))
		var reports []leaf.Report
		for i := range keys {
			reports = append(reports, leaf.Report{Key: fmt.Sprint(i), Wants: 1000})
		}
		d.exchange(leaf.Exchange{Leaf: "a", Reports: reports})
		d.exchange(leaf.Exchange{Leaf: "a", Leave: true, Reports: []leaf.Report{{Key: "1", Used: 100}}})
		var v decider.Verdict
		if d.Decide(&decider.Request{Key: "1", N: 1}, &v); v.OK {
			t.Error("what a leaf has used last is not charged")
		}
		if !d.needs("a", 1) {
			t.Error("a leaf that has left is known")
		}
		d.needs("b", 0)
		d.needs("b", 0)
		for i := range keys {
			if got := d.assign("b", leaf.Report{Key: fmt.Sprint(i), Wants: 1000}); !near(got.Rate, 100./60) {
				t.Fatalf("key %d: another leaf has %+v", i, got)
			}
		}
	})
}

// A leaf that renews each key by a report of it has only that.
func TestSingleExchange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, one("all", quota(100, time.Second, "")))
		report := func(name, key string) leaf.Assignment {
			var got decider.LeafAnswer
			x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name, Reports: []leaf.Report{{Key: key, Wants: 1000}}}, Single: true}
			if err := d.Exchange(context.Background(), &x, &got); err != nil || got.NeedsResync(&x) {
				t.Error(err, got)
			}
			return got.Assignments[0]
		}
		report("a", "k")
		for range 3 {
			time.Sleep(server.DefaultAssignmentTTL / 2)
			report("a", "j")
		}
		if got := report("b", "k"); !near(got.Rate, 100) {
			t.Errorf("after the end of a's assignment, b has %+v", got)
		}
	})
}

func TestLeavesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{})
		var got decider.LeafAnswer
		join := func(i int) error {
			return d.Exchange(context.Background(), &decider.LeafExchange{Exchange: leaf.Exchange{Leaf: fmt.Sprint(i)}}, &got)
		}
		for i := range 20_000 {
			must(t, join(i))
		}
		if err := join(20_000); err != decider.ErrLeaves {
			t.Errorf("one leaf more: %v", err)
		}
		must(t, join(0))
		time.Sleep(2 * server.DefaultAssignmentTTL)
		must(t, join(20_000))
	})
}

// What has ended takes no memory.
func TestLeafStats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, config.Rule{Name: "k", Glob: "k*", Quota: quota(100, time.Second, "")})
		for i := range 1000 {
			d.assign(fmt.Sprint("leaf", i%10), leaf.Report{Key: fmt.Sprint("k", i/2)})
		}
		d.assign("leaf0", leaf.Report{Key: "free"})
		d.assign("leaf0", leaf.Report{Key: "k", Wants: -1})
		check(t, "with assignments", d.Stats().Leaves, assign.Stats{Leaves: 10, Assignments: 1001, Buckets: 501, Exchanges: 1002, Reports: 1002, Refused: 1})
		for range 17 {
			time.Sleep(server.DefaultAssignmentTTL)
			d.needs("leaf0", 0)
		}
		check(t, "long after", d.Stats().Leaves, assign.Stats{Leaves: 1, Exchanges: 1019, Reports: 1002, Refused: 1})
	})
}
