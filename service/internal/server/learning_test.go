package server_test

import (
	"bytes"
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

// reportEvery is the longest time between two exchanges of a leaf.
const reportEvery = 5 * time.Second

// hundred is a limit of 100 a second for each key.
var hundred = one("all", quota(100, time.Second, ""))

// crashed is a snapshot of a process that goes on.
func (d desk) crashed() []byte {
	d.t.Helper()
	var b bytes.Buffer
	must(d.t, d.Snapshot(&b, false))
	return b.Bytes()
}

// restarted is the Server that follows one with two leaves, of which one has 80 of 100 and the other 20.
func restarted(t *testing.T, snapshot func(desk) []byte, passes time.Duration, cfg server.Config) desk {
	d := learnt(t, server.Config{}, hundred)
	d.converge(4, leafUse{"a", leaf.Report{Key: "k", Wants: 1000}}, leafUse{"b", leaf.Report{Key: "k", Wants: 20}})
	saved := snapshot(d)
	time.Sleep(passes)
	if cfg.Rules == nil {
		cfg.Rules = d.Rules()
	}
	next, _ := d.next(cfg, saved)
	return next
}

// What leaves have outlives the process: a new leaf gets at once what none of them has, and no more.
func TestAssignmentsAreRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := restarted(t, desk.snapshot, time.Second, server.Config{})
		if got := d.Stats().Leaves; got.Leaves != 2 || got.Assignments != 2 {
			t.Errorf("%+v: want two leaves with an assignment each", got)
		}
		if got := d.assign("new", leaf.Report{Key: "k", Wants: 10}); got.Learning || got.Rate > 1 {
			t.Errorf("a new leaf gets %+v, of nothing", got)
		}
		if got := d.assign("new", leaf.Report{Key: "other", Wants: 10}); got.Learning || got.Rate < 10 {
			t.Errorf("a new leaf gets %+v of a key that nobody has", got)
		}
		if got := d.assign("a", leaf.Report{Key: "k", Wants: 1000, Has: 79}); got.Learning || math.Abs(got.Rate-70) > 2 {
			t.Errorf("a leaf with 79 gets %+v, as there is another one that wants 10", got)
		}
		time.Sleep(server.DefaultAssignmentTTL) // b is silent
		d.assign("a", leaf.Report{Key: "k", Wants: 1000, Has: 70})
		if got := d.assign("a", leaf.Report{Key: "k", Wants: 1000, Has: 70}); got.Rate < 99 {
			t.Errorf("when the assignments of all others have ended, a leaf gets %+v", got)
		}
	})
}

// Of a state that is older than assignments last, leaves have nothing.
func TestOldAssignmentsAreNotRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := restarted(t, desk.snapshot, 2*server.DefaultAssignmentTTL, server.Config{})
		if got := d.assign("new", leaf.Report{Key: "k", Wants: 1000}); got.Learning || got.Rate < 99 {
			t.Errorf("a new leaf gets %+v", got)
		}
	})
}

// Other members have owned the keys of a fleet since: the one that is back learns what leaves have now, from its start on.
func TestAMemberLearnsAssignments(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{Fleet: "secret"}, hundred)
		time.Sleep(time.Hour)
		next, _ := d.next(server.Config{Fleet: "secret", Rules: d.Rules()}, d.snapshot())
		if got := next.assign("new", leaf.Report{Key: "k", Wants: 1000}); !got.Learning || got.Rate > 51 {
			t.Errorf("just after the start, a new leaf gets %+v", got)
		}
		time.Sleep(reportEvery)
		if got := next.assign("new", leaf.Report{Key: "k", Wants: 1000, Has: 50}); got.Learning || got.Rate < 99 {
			t.Errorf("when all leaves have reported, a leaf gets %+v", got)
		}
	})
}

// A part of the limit stays kept for lost leaves that go on with their safe share.
func TestReservesAreRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, hundred)
		d.exchange(leaf.Exchange{Leaf: "a", Share: true, Reports: []leaf.Report{{Key: "k", Wants: 1000}}})
		saved := d.snapshot()
		time.Sleep(2 * server.DefaultAssignmentTTL)
		next, _ := d.next(server.Config{Rules: d.Rules()}, saved)
		if got := next.assign("b", leaf.Report{Key: "k", Wants: 1000}); got.Learning || !near(got.Rate, 50) {
			t.Errorf("beside a lost leaf, another one gets %+v", got)
		}
		time.Sleep(10 * server.DefaultAssignmentTTL)
		if got := next.assign("b", leaf.Report{Key: "k", Wants: 1000}); got.Rate < 99 {
			t.Errorf("when the lost leaf is forgotten: %+v", got)
		}
	})
}

// The rules in force count.
func TestRestoredAssignmentsFollowRules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			rule config.Rule
			want float64
		}{
			{one("all", quota(400, time.Second, "")), 190},
			{one("other", quota(400, time.Second, "")), 190},
			{one("all", quota(40, time.Second, "")), 0}, // the others have more
		} {
			d := restarted(t, desk.snapshot, time.Second, server.Config{Rules: &config.Rules{Rules: []config.Rule{c.rule}}})
			if got := d.assign("new", leaf.Report{Key: "k", Wants: 1000}); got.Learning || math.Abs(got.Rate-c.want) > 1 {
				t.Errorf("%v: a new leaf gets %+v: want %v", c.rule.Quota, got, c.want)
			}
		}
	})
}

// After a crash, leaves may have more than the snapshot says. Leaves get what they say they have, and others wait until all
// that the snapshot knows are back, or for one report interval.
func TestAssignLearnsAfterACrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, back := range []bool{true, false} {
			d := restarted(t, desk.crashed, time.Second, server.Config{})
			if got := d.assign("new", leaf.Report{Key: "k", Wants: 10}); !got.Learning || got.Rate != 0 {
				t.Errorf("a new leaf gets %+v", got)
			}
			if got := d.assign("b", leaf.Report{Key: "k", Wants: 100, Has: 70}); got.Learning || !near(got.Rate, 70) {
				t.Errorf("a leaf that had 20 by the snapshot, and has 70, gets %+v", got)
			}
			if back {
				if got := d.assign("a", leaf.Report{Key: "k", Wants: 30, Has: 30}); got.Learning || got.Rate < 29 {
					t.Errorf("a leaf that has 30 gets %+v", got)
				}
			} else {
				time.Sleep(reportEvery)
			}
			if got := d.assign("new", leaf.Report{Key: "free", Wants: 10}); got.Learning || got.Rate < 10 {
				t.Errorf("then a new leaf gets %+v of another key", got)
			}
		}
	})
}

// A process without one before it has nothing to learn.
func TestFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, hundred)
		d.First()
		if got := d.assign("new", leaf.Report{Key: "k", Wants: 1000}); got.Learning || got.Rate < 99 {
			t.Errorf("a leaf gets %+v", got)
		}
	})
}

// unsure is the first report of a leaf that goes on with an assignment of which it does not know how large it is.
func (d desk) unsure(name string, r leaf.Report) leaf.Assignment {
	d.t.Helper()
	var got decider.LeafAnswer
	x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name, Reports: []leaf.Report{r}}, Single: true, Unsure: true}
	if err := d.Exchange(context.Background(), &x, &got); err != nil {
		d.t.Error(err)
	}
	return got.Assignments[0]
}

// A leaf that comes by another connection takes over what it had: of those from its origin, the assignment by which it can have used as
// much as it has.
func TestLeavesTakeOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, hundred)
		d.converge(4, leafUse{"here#1", leaf.Report{Key: "k", Wants: 1000}}, leafUse{"here#2", leaf.Report{Key: "k", Wants: 20}}, leafUse{"there#3", leaf.Report{Key: "k", Wants: 10}})
		next, _ := d.next(server.Config{Rules: d.Rules()}, d.snapshot())
		for _, c := range []struct {
			name string
			used float64
			want float64
		}{{"here#8", 19, 20}, {"here#9", 69, 70}, {"there#7", 9, 10}} {
			if got := next.unsure(c.name, leaf.Report{Key: "k", Wants: c.used, Has: c.used}); !got.Learning {
				t.Errorf("%s is to go on with what it has: %+v", c.name, got)
			}
			if got := next.assign(c.name, leaf.Report{Key: "k", Wants: c.want, Has: decider.AsAssigned}); got.Learning || math.Abs(got.Rate-c.want) > 2 {
				t.Errorf("then %s, which had %v, gets %+v", c.name, c.want, got)
			}
		}
		check(t, "assignments", next.Stats().Leaves.Assignments, 3)
		if got := next.unsure("elsewhere#10", leaf.Report{Key: "k", Wants: 10, Has: 10}); got.Learning {
			t.Errorf("a fourth one, of which nothing was known: %+v", got)
		}
	})
}

// A leaf of a tenant does not take over what others have.
func TestTenantsDoNotTakeOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, hundred)
		d.assign("here#1", leaf.Report{Key: "k", Wants: 1000})
		next, _ := d.next(server.Config{Rules: d.Rules()}, d.snapshot())
		var got decider.LeafAnswer
		x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "here#2", Reports: []leaf.Report{{Key: "k", Wants: 50, Has: 50}}}, Single: true, Unsure: true, Tenant: "t"}
		must(t, next.Exchange(t.Context(), &x, &got))
		if got := got.Assignments[0]; got.Learning || got.Rate > 1 {
			t.Errorf("%+v: want nothing of what another one has", got)
		}
	})
}

// A leaf that has moved to this node, whose connection to another node has ended, takes over what it had when it was to have reported,
// also while leaves may have assignments of which the node does not know.
func TestLeavesMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, d := range map[string]desk{"learnt": learnt(t, server.Config{}, hundred), "blind": newDesk(t, server.Config{}, hundred)} {
			time.Sleep(reportEvery)
			d.assign("here#1", leaf.Report{Key: "k", Wants: 90})
			d.assign("here#2", leaf.Report{Key: "k", Wants: 5})
			time.Sleep(reportEvery)
			d.assign("here#2", leaf.Report{Key: "k", Wants: 5})
			if got := d.unsure("here#3", leaf.Report{Key: "k", Wants: 90, Has: 90}); !got.Learning {
				t.Errorf("%s: it is to go on with what it has: %+v", name, got)
			}
			time.Sleep(reportEvery)
			d.assign("here#2", leaf.Report{Key: "k", Wants: 5})
			if got := d.assign("here#3", leaf.Report{Key: "k", Wants: 90, Has: decider.AsAssigned}); got.Learning || got.Rate < 90 {
				t.Errorf("%s: then it gets %+v", name, got)
			}
			check(t, "assignments", d.Stats().Leaves.Assignments, 2)
		}
	})
}

// Of leaves of one origin that all move, each gets what it had, although the others have not said yet what they go on with.
func TestLeavesMoveTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, hundred)
		at := time.Now().Add(reportEvery)
		for i, each := range []func(name string, r leaf.Report) leaf.Assignment{d.assign, d.unsure, d.assign} {
			for k, wants := range []float64{50, 20} {
				time.Sleep(time.Until(at.Add(time.Duration(i)*reportEvery + time.Duration(k)*3*time.Second)))
				got := each(fmt.Sprintf("here#%d", 10*min(i, 1)+k), leaf.Report{Key: "k", Wants: wants, Has: []float64{0, wants, decider.AsAssigned}[i]})
				if learning := i == 1; got.Learning != learning || !learning && got.Rate < wants-1 {
					t.Errorf("report %d of leaf %d: %+v", i, k, got)
				}
			}
		}
		check(t, "assignments", d.Stats().Leaves.Assignments, 2)
	})
}

// What a node asks in the name of a leaf, until its connection ends, is no report of it.
func TestLeavesMoveAfterRepeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, hundred)
		r := leaf.Report{Key: "k", Wants: 100, Has: 100}
		d.assign("here#1", r)
		time.Sleep(reportEvery - time.Second)
		var got decider.LeafAnswer
		must(t, d.Exchange(t.Context(), &decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "here#1", Reports: []leaf.Report{r}}, Single: true, Repeat: true}, &got))
		time.Sleep(time.Second)
		d.unsure("here#2", r)
		time.Sleep(reportEvery)
		r.Has = decider.AsAssigned
		if got := d.assign("here#2", r); got.Learning || got.Rate < 99 {
			t.Errorf("a leaf that has moved gets %+v", got)
		}
	})
}

// Many assignments are restored, within the bounds.
func TestManyAssignmentsAreRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{}, hundred)
		for i := range 4 {
			x := leaf.Exchange{Leaf: fmt.Sprint("leaf", i)}
			for k := range 2500 {
				x.Reports = append(x.Reports, leaf.Report{Key: fmt.Sprint("k", k), Wants: 10})
			}
			d.exchange(x)
		}
		saved := d.snapshot()
		for _, c := range []struct{ most, want int }{{0, 10_000}, {5000, 5000}} {
			next, _ := d.next(server.Config{Rules: d.Rules(), MaxAssignments: c.most}, saved)
			check(t, "assignments", next.Stats().Leaves.Assignments, c.want)
		}
	})
}
