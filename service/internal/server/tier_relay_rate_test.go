package server_test

import (
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
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

// Leaves behind two tiers use the limit together.
func TestTierLeavesOfTwoTiers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 1000
		up := newDesk(t, server.Config{Rules: fleetRules(limit)})
		f := &zoneFleet{t: t, limit: limit}
		var all sync.WaitGroup
		stop := make(chan struct{})
		for _, name := range []string{"one", "two"} {
			owned := newZone(t, up.Server, name, fleetRules(limit), server.TierConfig{})
			f.zones = append(f.zones, newZone(t, owned.Tier, name+"-leaf", fleetRules(limit), server.TierConfig{}))
		}
		time.Sleep(server.DefaultAssignmentTTL + time.Second)
		from := time.Since(f.zones[0].began)
		for _, z := range f.zones {
			z.load("hot", constant(900), stop, &all)
		}
		time.Sleep(26 * time.Second)
		close(stop)
		all.Wait()
		var each []int
		for at := from; at < from+26*time.Second; at += time.Second {
			each = append(each, f.zones[0].given(at, at+time.Second)+f.zones[1].given(at, at+time.Second))
		}
		t.Log(each)
		if n := f.zones[0].given(from+6*time.Second, from+26*time.Second) + f.zones[1].given(from+6*time.Second, from+26*time.Second); n < 20*limit*98/100 {
			t.Errorf("%d in 20 s after 6 s: %v", n, each)
		}
		f.keeps(0, 11*limit)
		f.keeps(from+time.Second, 10*limit+2)
	})
}
