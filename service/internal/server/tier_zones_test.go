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

// newZoneFleet returns a zoneFleet. It calls the demands for each request.
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
