//go:build !race

package server_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Steady skewed demand: tiers use the limit, no more, and share it max-min fairly.
func TestTierSkewedDemand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit, from, to = 1000, 50 * time.Second, 80 * time.Second
		up := newDesk(t, server.Config{Rules: fleetRules(limit)})
		f := newZoneFleet(t, up.Server, limit, server.TierConfig{}, constant(1500), constant(400), constant(150), constant(40), constant(10))
		time.Sleep(to)
		f.end()
		f.gives(from, to, 0.02, 400, 400, 150, 40, 10)
		total := 0
		for _, z := range f.zones {
			total += z.given(from, to)
		}
		if total > limit*30*101/100 || total < limit*30*98/100 {
			t.Errorf("all gave %d, want %d", total, limit*30)
		}
		f.keeps(0, 11*limit)
		f.keeps(10*time.Second, limit*101/10)
	})
}

// The upstream is away for a minute, and comes back without its state: decisions go on, and in no 10 seconds do all
// give more than the limit. The way back makes no burst.
func TestTierUpstreamKilled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 1000
		up := newDesk(t, server.Config{Rules: fleetRules(limit)})
		f := newZoneFleet(t, up.Server, limit, server.TierConfig{}, constant(1500), constant(300), constant(50))
		time.Sleep(60 * time.Second)
		f.cut(nil)
		time.Sleep(60 * time.Second)
		f.cut(newDesk(t, server.Config{Rules: fleetRules(limit)}).Server)
		time.Sleep(90 * time.Second)
		f.end()
		f.gives(70*time.Second, 80*time.Second, 0.02, 650, 300, 50)
		f.gives(105*time.Second, 120*time.Second, 0.02, 333, 300, 50)
		f.gives(190*time.Second, 210*time.Second, 0.02, 650, 300, 50)
		f.keeps(0, 11*limit)
		f.keeps(20*time.Second, limit*101/10)
		for i, z := range f.zones {
			if z.steps[decider.Last] == 0 || z.steps[decider.Share] == 0 || z.steps[decider.ByRule] > 0 {
				t.Errorf("%s: %v: want decisions by the last assignment and by the share", zoneName(i), z.steps)
			}
			if len(z.told) != 2 || z.told[0] == nil || z.told[1] != nil {
				t.Errorf("%s: told %v, want that the upstream is away and back", zoneName(i), z.told)
			}
		}
	})
}

// Tiers that start without their upstream decide by their share, of the number of leaves that they
// are told.
func TestTierStartsAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 900
		f := newZoneFleet(t, nil, limit, server.TierConfig{Leaves: 3}, constant(1500), constant(1500), constant(100))
		f.cut(nil)
		time.Sleep(30 * time.Second)
		f.cut(newDesk(t, server.Config{Rules: fleetRules(limit)}).Server)
		time.Sleep(60 * time.Second)
		f.end()
		f.gives(5*time.Second, 30*time.Second, 0.02, 300, 300, 100)
		f.gives(75*time.Second, 90*time.Second, 0.02, 400, 400, 100)
		f.keeps(0, 11*limit)
		f.keeps(20*time.Second, limit*102/10)
	})
}

// A demand that jumps 15-fold is served from its new share within two intervals.
func TestTierJump(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit, at = 1000, 60 * time.Second
		up := newDesk(t, server.Config{Rules: fleetRules(limit)})
		began := time.Now()
		jumps := func() float64 {
			if time.Since(began) < at {
				return 30
			}
			return 450
		}
		f := newZoneFleet(t, up.Server, limit, server.TierConfig{}, jumps, constant(1000), constant(1000), constant(20))
		time.Sleep(80 * time.Second)
		f.end()
		f.gives(at-10*time.Second, at, 0.02, 30, 475, 475, 20)
		f.gives(at+2*time.Second, at+12*time.Second, 0.02, 980.0/3, 980.0/3, 980.0/3, 20)
		f.keeps(20*time.Second, limit*101/10)
	})
}
