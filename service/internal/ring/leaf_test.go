package ring

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafset"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Limits of the keys of these tests.
const (
	leafRate  = 100 // tokens a second
	leafBurst = 20
)

// A testLeaf decides about keys by what the fleet assigns to it, through one member.
type testLeaf struct {
	set       *leafset.Set
	exchanges atomic.Int64
}

// An entry is the member that a leaf exchanges with.
type entry struct {
	f    *fleet
	at   string
	leaf *testLeaf
}

func (e entry) Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	e.leaf.exchanges.Add(1)
	var got decider.LeafAnswer
	whole := decider.LeafExchange{Exchange: *x}
	if err := e.f.nodes[e.at].Exchange(ctx, &whole, &got); err != nil {
		return leaf.Answer{}, err
	}
	got.Resync = got.NeedsResync(&whole)
	return got.Answer, nil
}

// leafRun is leaves at members that want more of some keys than there is.
type leafRun struct {
	f      *fleet
	keys   []string
	leaves map[string]*testLeaf
	given  map[string]int                          // tokens by key since the last report
	steps  map[string]map[string]map[leaf.Step]int // decisions by leaf and key since the last report
}

// newLeafRun starts a leaf at each of some members.
func (f *fleet) newLeafRun(entries []string, keys ...string) *leafRun {
	r := &leafRun{f: f, keys: keys, leaves: map[string]*testLeaf{}}
	for _, at := range entries {
		l := &testLeaf{}
		var err error
		l.set, err = leafset.New(leafset.Config{Config: leaf.Config{Name: "leaf at " + at}, Upstream: entry{f, at, l}})
		if err != nil {
			f.t.Fatal(err)
		}
		r.leaves[at] = l
	}
	return r
}

func (r *leafRun) close() {
	for _, l := range r.leaves {
		_ = l.set.Close(context.Background())
	}
}

// run has each leaf want twice the limit of each key for a time. If a leaf has no assignment, its
// member decides.
func (r *leafRun) run(d time.Duration) {
	r.given, r.steps = map[string]int{}, map[string]map[string]map[leaf.Step]int{}
	policy := leaf.Policy{Away: leaf.ShareAway}
	for at, l := range r.leaves {
		l.exchanges.Store(0)
		r.steps[at] = map[string]map[leaf.Step]int{}
		for _, key := range r.keys {
			r.steps[at][key] = map[leaf.Step]int{}
		}
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for at, l := range r.leaves {
			for _, key := range r.keys {
				got, step := l.set.Take(key, 1, &policy)
				ok := got.OK
				if step == leaf.Ask {
					var v decider.Verdict
					if err := r.f.nodes[at].Decide(context.Background(), &decider.Request{Key: key, N: 1}, &v); err != nil {
						r.f.t.Error(err)
					}
					ok = v.OK
				}
				r.steps[at][key][step]++
				if ok {
					r.given[key]++
				}
			}
		}
	}
}

// want checks what keys got in the last run: at least a part of the limit, and at most the limit
// and some tokens more.
func (r *leafRun) want(phase string, d time.Duration, least float64, more map[string]float64) {
	r.f.t.Helper()
	for _, key := range r.keys {
		whole := leafRate * d.Seconds()
		text := fmt.Sprintf("%s: %s: %d tokens, %v", phase, key, r.given[key], r.steps)
		r.f.t.Logf("%s: %s: %d tokens of %.0f", phase, key, r.given[key], whole)
		if n := float64(r.given[key]); n < least*whole || n > 1.01*whole+leafBurst+more[key] {
			r.f.t.Errorf("%s, want from %.0f to %.0f and %.0f", text, least*whole, whole+leafBurst, more[key])
		}
	}
	for at, l := range r.leaves {
		if n := float64(l.exchanges.Load()); n > 3*d.Seconds()+20 {
			r.f.t.Errorf("%s: %.0f exchanges of the leaf at %s", phase, n, at)
		}
	}
}

// decidedBy returns the part of decisions of a leaf about a key that were made by a step.
func (r *leafRun) decidedBy(at, key string, step leaf.Step) float64 {
	sum := 0
	for _, n := range r.steps[at][key] {
		sum += n
	}
	return float64(r.steps[at][key][step]) / float64(max(sum, 1))
}

func leafRules() *config.Rules {
	r := &config.Rules{Rules: []config.Rule{{Name: "all", Glob: "*", Away: config.AwayShare, Quota: config.Quota{
		Rate: config.Rate{Count: leafRate, Period: time.Second}, Burst: leafBurst,
	}}}}
	if err := r.Complete(); err != nil {
		panic(err)
	}
	return r
}

// Leaves have assignments of all owners at once, through any member. The members' death, return and
// leaving move assignments, and the limit holds.
func TestLeavesOfSeveralOwners(t *testing.T) {
	inFleet(t, 3, leafRules(), func(t *testing.T, f *fleet) {
		r := f.newLeafRun([]string{"a", "b"}, f.ownedBy("a"), f.ownedBy("b"), f.ownedBy("c"))
		defer r.close()
		const phase = 40 * time.Second // a new owner learns for 30
		assigned := func(name string) {
			t.Helper()
			r.want(name, phase, .98, nil)
			for at := range r.leaves {
				for _, key := range r.keys {
					if part := r.decidedBy(at, key, leaf.Assigned); part < .999 {
						t.Errorf("%s: leaf at %s, %s: %.3f of the decisions by assignments", name, at, key, part)
					}
				}
			}
		}
		r.run(phase) // the members learn
		r.run(phase)
		assigned("at first")
		f.kill("c")
		r.run(phase)
		r.want("after a death", phase, .9, nil)
		r.run(phase)
		assigned("with two members")
		f.start("c")
		r.run(phase)
		r.want("with a new member", phase, .9, nil)
		r.run(phase)
		assigned("with three members")
		if _, err := f.nodes["c"].Leave(context.Background()); err != nil {
			t.Error(err)
		}
		r.run(phase)
		r.want("after a member has left", phase, .9, nil)
	})
}

// A leaf of a member that cannot ask one of the owners uses its assignments until that owner
// gives them to others. From then on its member decides about these keys, by its share; or the leaf
// by its own, if an exchange was under way when the link was cut and it took its member for away.
func TestLeafOfAnOwnerThatIsCut(t *testing.T) {
	inFleet(t, 3, leafRules(), func(t *testing.T, f *fleet) {
		lost, other := f.ownedBy("c"), f.ownedBy("a")
		r := f.newLeafRun([]string{"a", "b"}, lost, other)
		defer r.close()
		const phase = 40 * time.Second
		r.run(phase)
		r.run(phase)
		f.cut("a", "c", true)
		r.run(phase)
		r.want("at first", phase, .5, nil)
		r.run(3 * phase)
		r.want("cut", 3*phase, .5, nil)
		if part := r.decidedBy("a", lost, leaf.Ask) + r.decidedBy("a", lost, leaf.Share); part < .99 {
			t.Errorf("%.3f of the decisions by the member or a share: %v", part, r.steps["a"])
		}
		if part := r.decidedBy("a", other, leaf.Assigned); part < .99 {
			t.Errorf("%.3f of the decisions about the other key by assignments: %v", part, r.steps["a"])
		}
		if part := r.decidedBy("b", lost, leaf.Assigned); part < .99 {
			t.Errorf("the other leaf: %.3f of the decisions by assignments: %v", part, r.steps["b"])
		}
		f.cut("a", "c", false)
		r.run(phase)
		r.want("repaired", phase, .5, nil)
		r.run(phase)
		r.want("later", phase, .98, nil)
		if part := r.decidedBy("a", lost, leaf.Assigned); part < .999 {
			t.Errorf("%.3f of the decisions by assignments: %v", part, r.steps["a"])
		}
	})
}

// proxies report demand for a key at some members, as a proxy does every five seconds, until each has what it wants. The first report is of
// one request. It returns how long that takes, up to 40 seconds.
func (f *fleet) proxies(key string, wants float64, entries ...string) time.Duration {
	began := time.Now()
	has := make([]float64, len(entries))
	for wanted := 1.0; ; wanted = wants {
		least := wants
		for i, at := range entries {
			x := decider.LeafExchange{Single: true, Keep: .01, Exchange: leaf.Exchange{Leaf: fmt.Sprint("proxy ", i), Reports: []leaf.Report{{Key: key, Wants: wanted, Has: has[i]}}}}
			var got decider.LeafAnswer
			if err := f.nodes[at].Exchange(context.Background(), &x, &got); err != nil {
				f.t.Fatal(err)
			}
			has[i] = got.Assignments[0].Rate
			least = min(least, has[i])
		}
		if took := time.Since(began); least >= wants || took > 40*time.Second {
			return took
		}
		time.Sleep(5 * time.Second)
	}
}

// A user that is new just after the start of a fleet, or after a member has left, and wants half of its limit through three proxies, has it
// after their next two reports.
func TestNewKeyOfNewOwner(t *testing.T) {
	inFleet(t, 3, leafRules(), func(t *testing.T, f *fleet) {
		if took := f.proxies(f.ownedBy("a"), 17, "a", "b", "c"); took > 11*time.Second {
			t.Errorf("after the start: %v", took)
		}
		time.Sleep(time.Minute)
		key := f.ownedBy("c")
		if _, err := f.nodes["c"].Leave(context.Background()); err != nil {
			t.Error(err)
		}
		if took := f.proxies(key, 17, "a", "b", "a"); took > 11*time.Second {
			t.Errorf("after a member has left: %v", took)
		}
	})
}
