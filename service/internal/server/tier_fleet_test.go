//go:build !race

package server_test

import (
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A zoneFleet is tiers of one upstream, with a demand for one key at each.
type zoneFleet struct {
	t     *testing.T
	limit int
	zones []*zone
	all   sync.WaitGroup
	stop  chan struct{}
}

// newZoneFleet returns a zoneFleet, whose demands are called for each request.
func newZoneFleet(t *testing.T, up decider.Decider, limit int, cfg server.TierConfig, demands ...func() float64) *zoneFleet {
	f := &zoneFleet{t: t, limit: limit, stop: make(chan struct{})}
	for i, rate := range demands {
		f.zones = append(f.zones, newZone(t, up, zoneName(i), fleetRules(limit), cfg))
		f.zones[i].load("hot", rate, f.stop, &f.all)
	}
	return f
}

// end ends the demand.
func (f *zoneFleet) end() {
	close(f.stop)
	f.all.Wait()
}

// cut cuts all zones off, or connects them to an upstream.
func (f *zoneFleet) cut(up decider.Decider) {
	for _, z := range f.zones {
		if up != nil {
			z.wire.Decider = up
		}
		z.wire.cut.Store(up == nil)
	}
}

// keeps checks the most that all gave in any 10 seconds from an instant on.
func (f *zoneFleet) keeps(from time.Duration, limit int) {
	f.t.Helper()
	if n, at := most(from, 10*time.Second, f.zones...); n > limit {
		f.t.Errorf("%d in the 10 s from %v, want at most %d", n, at, limit)
	}
}

// gives checks what each zone gave each second in a span, within a part.
func (f *zoneFleet) gives(from, to time.Duration, part float64, want ...float64) {
	f.t.Helper()
	for i, z := range f.zones {
		if n := z.given(from, to); !within(n, want[i]*(to-from).Seconds(), part) {
			f.t.Errorf("%s: %d from %v to %v, want %v each second", zoneName(i), n, from, to, want[i])
		}
	}
}

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
