//go:build !race

package server_test

import (
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// unassignedRules is fleetRules with a choice for keys without an assignment.
func unassignedRules(rate int, first config.Unassigned) *config.Rules {
	rules := fleetRules(rate)
	rules.Rules[0].Unassigned = first
	return rules
}

// A leaf behind a tier, alone on a key, gets the limit: what it asked for at first does not stay with
// the tier, and it wants more than it has.
func TestTierLeafAloneGetsTheLimit(t *testing.T) {
	for _, first := range []config.Unassigned{config.UnassignedAsk, config.UnassignedShare, config.UnassignedDeny} {
		for _, before := range []time.Duration{0, 5 * time.Second} {
			t.Run(string(first)+"/"+before.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					const limit = 100
					rules := unassignedRules(limit, first)
					up := newDesk(t, server.Config{Rules: rules})
					owned := newZone(t, up.Server, "zone", rules, server.TierConfig{})
					below := newZone(t, owned.Tier, "leaf", rules, server.TierConfig{})
					time.Sleep(server.DefaultAssignmentTTL + time.Second)
					if before > 0 {
						below.take("hot", 1)
						time.Sleep(before)
					}
					var all sync.WaitGroup
					stop, from := make(chan struct{}), time.Since(below.began)
					below.load("hot", constant(900), stop, &all)
					time.Sleep(16 * time.Second)
					close(stop)
					all.Wait()
					var each []int
					for at := from; at < from+16*time.Second; at += time.Second {
						each = append(each, below.given(at, at+time.Second))
					}
					t.Log(each)
					if n := below.given(from+3*time.Second, from+6*time.Second); n < 3*limit*95/100 {
						t.Errorf("%d in 3 s after 3 s: %v", n, each)
					}
					if n := below.given(from+6*time.Second, from+16*time.Second); n < 10*limit*98/100 {
						t.Errorf("%d in 10 s after 6 s: %v", n, each)
					}
					if n, at := most(0, 10*time.Second, below, owned); n > 11*limit {
						t.Errorf("%d in the 10 s from %v", n, at)
					}
					if n, at := most(from+time.Second, 10*time.Second, below, owned); n > 10*limit+1 {
						t.Errorf("%d in the 10 s from %v", n, at)
					}
				})
			})
		}
	}
}

// Leaves are told the limit of the upstream and the number of leaves that share it: their safe shares and that of the tier
// itself are together the safe share of the tier, also while it is cut off.
func TestTierTellsTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit, tiers, below = 1000, 3, 4
		rules := fleetRules(limit)
		up := newDesk(t, server.Config{Rules: rules})
		var zones []*zone
		for i := range tiers {
			zones = append(zones, newZone(t, up.Server, zoneName(i), rules, server.TierConfig{}))
		}
		time.Sleep(server.DefaultAssignmentTTL + time.Second)
		check := func(when string) {
			t.Helper()
			for range 20 {
				for _, z := range zones {
					z.take("hot", 1)
				}
				for i := range below {
					got := assignment(t, zones[0], zoneName(i)+"-leaf", "hot")
					if got.Leaves > 0 && got.LimitRate != limit {
						t.Errorf("%s: %+v", when, got)
					}
				}
				time.Sleep(time.Second)
			}
			all := 0.0
			for i := range below {
				got := assignment(t, zones[0], zoneName(i)+"-leaf", "hot")
				all += got.LimitRate / float64(got.Leaves)
			}
			if want := limit / tiers * below / (below + 1.); all < want-1 || all > want+1 {
				t.Errorf("%s: the safe shares of %d leaves are %v, want %v", when, below, all, want)
			}
		}
		check("connected")
		zones[0].wire.cut.Store(true)
		check("cut off")
		time.Sleep(2 * server.DefaultAssignmentTTL)
		check("cut off for long")
	})
}

// assignment exchanges as a leaf of a tier that wants 10 tokens a second.
func assignment(t *testing.T, z *zone, name, key string) leaf.Assignment {
	t.Helper()
	x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name, Reports: []leaf.Report{{Key: key, Wants: 10}}}}
	var got decider.LeafAnswer
	if err := z.Exchange(t.Context(), &x, &got); err != nil {
		t.Fatal(err)
	}
	return got.Assignments[0]
}

// A tier that is cut off keeps to its safe share, with a leaf behind it that wants more than that.
func TestTierCutOffWithALeaf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 1000
		rules := fleetRules(limit)
		up := newDesk(t, server.Config{Rules: rules})
		var all sync.WaitGroup
		stop := make(chan struct{})
		owned, other := newZone(t, up.Server, "zone", rules, server.TierConfig{}), newZone(t, up.Server, "other", rules, server.TierConfig{})
		below := newZone(t, owned.Tier, "leaf", rules, server.TierConfig{})
		time.Sleep(server.DefaultAssignmentTTL + time.Second)
		from := time.Since(owned.began)
		below.load("hot", constant(3000), stop, &all)
		owned.load("hot", constant(300), stop, &all)
		other.load("hot", constant(3000), stop, &all)
		f := &zoneFleet{t: t, limit: limit, zones: []*zone{owned, other, below}}
		time.Sleep(30 * time.Second)
		f.gives(from+10*time.Second, from+30*time.Second, 0.03, 250, 500, 250)
		owned.wire.cut.Store(true)
		time.Sleep(90 * time.Second)
		if n, at := most(from+75*time.Second, 10*time.Second, owned, below); n > limit/2*10*101/100 || n < limit/2*10*95/100 {
			t.Errorf("the tier and its leaf: %d in the 10 s from %v, want their safe share, %d", n, at, limit/2*10)
		}
		close(stop)
		all.Wait()
		f.keeps(0, 11*limit)
		f.keeps(from+10*time.Second, limit*101/10)
	})
}

// A rule may ask for the share. Such a decision is not degraded while the upstream answers.
func TestTierShareIsNotDegraded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules, degraded := unassignedRules(100, config.UnassignedShare), 0
		up := newDesk(t, server.Config{Rules: rules})
		z := newZone(t, up.Server, "zone", rules, server.TierConfig{OnDegraded: func(string, *decider.Verdict) { degraded++ }})
		if v := z.take("a", 1); !v.OK || v.Step != decider.Assigned || degraded != 0 {
			t.Errorf("%+v, degraded: %d", v, degraded)
		}
		z.wire.cut.Store(true)
		time.Sleep(10 * time.Second)
		if v := z.take("b", 1); !v.OK || v.Step != decider.Share || degraded != 1 {
			t.Errorf("while the upstream is away: %+v, degraded: %d", v, degraded)
		}
	})
}
