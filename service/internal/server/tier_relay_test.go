//go:build !race

package server_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A tier shares out to leaves of its own what it was assigned: the sum over all keeps the limit,
// and leaves and tiers get fair shares. A leaf that is gone gives back what it had.
func TestTierPassesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 1000
		up := newDesk(t, server.Config{Rules: fleetRules(limit)})
		var all, below sync.WaitGroup
		stop, stopBelow := make(chan struct{}), make(chan struct{})
		owned := newZone(t, up.Server, "zone", fleetRules(limit), server.TierConfig{})
		other := newZone(t, up.Server, "other", fleetRules(limit), server.TierConfig{})
		leaves := []*zone{
			newZone(t, owned.Tier, "leaf-1", fleetRules(limit), server.TierConfig{}),
			newZone(t, owned.Tier, "leaf-2", fleetRules(limit), server.TierConfig{}),
		}
		owned.load("hot", constant(200), stop, &all)
		other.load("hot", constant(450), stop, &all)
		leaves[0].load("hot", constant(600), stopBelow, &below)
		leaves[1].load("hot", constant(50), stopBelow, &below)
		f := &zoneFleet{t: t, limit: limit, zones: append(leaves, owned, other)}
		time.Sleep(100 * time.Second)
		f.gives(90*time.Second, 100*time.Second, 0.05, 300, 50, 200, 450) // two levels of headroom
		f.keeps(0, 12*limit)
		f.keeps(20*time.Second, limit*102/10)

		close(stopBelow)
		below.Wait()
		for _, l := range leaves {
			_ = l.Disconnect(context.Background())
		}
		time.Sleep(20 * time.Second)
		jumped := time.Since(f.zones[0].began)
		owned.load("hot", constant(1000), stop, &all)
		time.Sleep(30 * time.Second)
		close(stop)
		all.Wait()
		f.gives(jumped+20*time.Second, jumped+30*time.Second, 0.03, 0, 0, 550, 450)
		f.keeps(jumped, limit*102/10)
	})
}

// A tier that is cut off from its upstream passes on its last assignment, then its share.
func TestTierPassesOnWhileAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 1000
		rules := fleetRules(limit)
		up := newDesk(t, server.Config{Rules: rules})
		var all sync.WaitGroup
		stop := make(chan struct{})
		zones := []*zone{newZone(t, up.Server, "zone", rules, server.TierConfig{}), newZone(t, up.Server, "other", rules, server.TierConfig{})}
		below := newZone(t, zones[0].Tier, "leaf", rules, server.TierConfig{})
		below.load("hot", constant(2000), stop, &all)
		zones[0].load("hot", constant(100), stop, &all)
		zones[1].load("hot", constant(200), stop, &all)
		f := &zoneFleet{t: t, limit: limit, zones: append(zones, below)}
		time.Sleep(100 * time.Second)
		f.gives(90*time.Second, 100*time.Second, 0.03, 100, 200, 700)
		for _, z := range zones {
			z.wire.cut.Store(true)
		}
		time.Sleep(60 * time.Second)
		f.gives(110*time.Second, 120*time.Second, 0.03, 100, 200, 700)
		f.gives(145*time.Second, 160*time.Second, 0.03, 100, 200, 400)
		for _, z := range zones {
			z.wire.cut.Store(false)
		}
		time.Sleep(60 * time.Second)
		close(stop)
		all.Wait()
		f.gives(200*time.Second, 220*time.Second, 0.03, 100, 200, 700)
		f.keeps(20*time.Second, limit*102/10)
	})
}

// A tier has nothing to pass on of rules that it is asked about, and before it has an assignment.
func TestTierPassesNothingOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, z := newPair(t, `rules: [{name: fast, key: fast, rate: 100/s}, {name: slow, key: slow, rate: 1/s}, {name: none, key: none, rate: 0/s}]`, server.TierConfig{})
		time.Sleep(server.DefaultAssignmentTTL)
		assign := func(key string) leaf.Assignment {
			t.Helper()
			x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "leaf", Reports: []leaf.Report{{Key: key, Wants: 10}}}}
			var got decider.LeafAnswer
			if err := z.Exchange(t.Context(), &x, &got); err != nil {
				t.Fatal(err)
			}
			return got.Assignments[0]
		}
		if got := assign("fast"); !got.Learning || got.Rate != 0 {
			t.Errorf("at first: %+v", got)
		}
		time.Sleep(time.Second)
		if got := assign("fast"); got.Learning || got.Rate < 10 || got.Rate > 100 || got.LimitRate != 100 || got.LimitBurst != 100 || got.Leaves != 2 {
			t.Errorf("a second later: %+v", got)
		}
		if got := assign("slow"); !got.Learning || got.Rate != 0 {
			t.Errorf("a slow rule: %+v", got)
		}
		if got := assign("none"); got.Learning || got.Unlimited || got.Rate != 0 {
			t.Errorf("a rule that lets nothing pass: %+v", got)
		}
		if got := assign("other"); !got.Unlimited {
			t.Errorf("no rule: %+v", got)
		}
	})
}

// A leaf may not use what a tier passed on for longer than the tier itself.
func TestTierPassesOnNoLonger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 1000
		up := newDesk(t, server.Config{Rules: fleetRules(limit)})
		var all sync.WaitGroup
		stop := make(chan struct{})
		began := time.Now()
		late := func() float64 {
			if time.Since(began) < 132*time.Second {
				return 10
			}
			return 2000
		}
		owned := newZone(t, up.Server, "zone", fleetRules(limit), server.TierConfig{})
		other := newZone(t, up.Server, "other", fleetRules(limit), server.TierConfig{})
		below := newZone(t, owned.Tier, "leaf", fleetRules(limit), server.TierConfig{})
		below.load("hot", constant(2000), stop, &all)
		other.load("hot", late, stop, &all)
		f := &zoneFleet{t: t, limit: limit, zones: []*zone{owned, other, below}}
		time.Sleep(100 * time.Second)
		owned.wire.cut.Store(true)
		other.wire.cut.Store(true)
		time.Sleep(25 * time.Second)
		f.gives(115*time.Second, 125*time.Second, 0.03, 0, 10, 990)
		below.wire.cut.Store(true)
		time.Sleep(30 * time.Second)
		close(stop)
		all.Wait()
		f.keeps(20*time.Second, limit*107/10)
	})
}
