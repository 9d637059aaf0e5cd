package server_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

const tierLeases = `rules:
- {name: jobs, key: jobs, concurrency: {limit: 6, ttl: 30s, max_ttl: 60s}}
- {name: strict, key: strict, away: deny, concurrency: {limit: 6, ttl: 30s}}
- {name: auto, key: auto, concurrency: {ttl: 30s}}
`

// lease takes a lease of a key.
func (z *zone) lease(key string, n int) (decider.Lease, error) {
	return z.Acquire(z.t.Context(), decider.LeaseRequest{Key: key, N: n})
}

// mustLease takes a lease of a key, which must be granted.
func (z *zone) mustLease(key string, n int, step decider.Step) decider.Lease {
	z.t.Helper()
	l, err := z.lease(key, n)
	if err != nil || l.Step != step || l.N != n || l.Key != key || l.TTL != 30*time.Second || l.Token == 0 {
		z.t.Fatalf("%q: %+v, %v", key, l, err)
	}
	return l
}

// refuses checks that no lease is granted.
func (z *zone) refuses(key string, n int, why weir.Reason) {
	z.t.Helper()
	l, err := z.lease(key, n)
	rejection, ok := errors.AsType[*weir.Rejection](err)
	if !ok || rejection.Reason != why {
		z.t.Errorf("%q: %+v, %v, want %v", key, l, err, why)
	}
}

// The upstream grants leases. While it is away, the node grants its share, of which its own
// leases count.
func TestTierLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up, z := newPair(t, tierLeases, server.TierConfig{Leaves: 2})
		first, strict := z.mustLease("jobs", 2, decider.Exact), z.mustLease("strict", 1, decider.Exact)
		z.refuses("jobs", 5, weir.OverLimit)
		if l, err := up.Renew("jobs", first.ID, 0); err != nil || l.Inflight != 2 {
			t.Errorf("at the upstream: %+v, %v", l, err)
		}
		z.wire.cut.Store(true)
		z.refuses("jobs", 2, weir.OverLimit)
		z.refuses("strict", 1, weir.Closed)
		z.refuses("auto", 1, weir.Closed)
		own := z.mustLease("jobs", 1, decider.Share)
		z.refuses("jobs", 1, weir.OverLimit)
		if st := z.Stats().Rules[0].Leases; st.Held != 3 {
			t.Errorf("%d units are held", st.Held)
		}
		if _, err := z.Renew(t.Context(), "strict", strict.ID, 0); err == nil || err == decider.ErrNoLease {
			t.Errorf("a lease of a rule that denies: %v", err)
		}
		for range 4 { // longer than they last at the upstream
			time.Sleep(20 * time.Second)
			for _, l := range []decider.Lease{first, own} {
				if got, err := z.Renew(t.Context(), "jobs", l.ID, 0); err != nil || got.ID != l.ID || got.Step != decider.Share || got.Inflight != 3 || got.TTL != 30*time.Second {
					t.Errorf("%+v, %v", got, err)
				}
			}
		}
		z.wire.cut.Store(false)
		time.Sleep(time.Second)
		for _, l := range []decider.Lease{first, own} {
			if got, err := z.Renew(t.Context(), "jobs", l.ID, time.Minute); err != nil || got.ID != l.ID || got.Token != l.Token || got.Step != decider.Exact || got.TTL != time.Minute {
				t.Errorf("back: %+v, %v", got, err)
			}
		}
		if x := up.Explain("jobs"); x.Rules[0].Lease.Inflight != 3 {
			t.Errorf("the upstream knows of %d units, want 3", x.Rules[0].Lease.Inflight)
		}
		for _, l := range []decider.Lease{first, own} {
			if err := z.Return(t.Context(), "jobs", l.ID, weir.Success); err != nil {
				t.Error(err)
			}
			if err := z.Return(t.Context(), "jobs", l.ID, weir.Success); err != decider.ErrNoLease {
				t.Errorf("returned again: %v", err)
			}
		}
		if x := up.Explain("jobs"); x.Rules[0].Lease.Inflight != 0 || z.TierStats().Leases != 0 {
			t.Errorf("the upstream knows of %d units, the node of %d", x.Rules[0].Lease.Inflight, z.TierStats().Leases)
		}
	})
}

// A lease that the upstream knows no more is lost. While it has no room, the node extends its own.
func TestTierLeasesThatAreLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up, z := newPair(t, tierLeases, server.TierConfig{Leaves: 2})
		lost := z.mustLease("jobs", 1, decider.Exact)
		if err := up.Return("jobs", lost.ID, weir.Success); err != nil {
			t.Fatal(err)
		}
		if _, err := z.Renew(t.Context(), "jobs", lost.ID, 0); err != decider.ErrNoLease {
			t.Errorf("a lease that the upstream has ended: %v", err)
		}
		z.wire.cut.Store(true)
		own := z.mustLease("jobs", 3, decider.Share)
		other, err := up.Acquire(t.Context(), decider.LeaseRequest{Key: "jobs", N: 6})
		if err != nil {
			t.Fatal(err)
		}
		z.wire.cut.Store(false)
		time.Sleep(time.Second)
		if got, err := z.Renew(t.Context(), "jobs", own.ID, 0); err != nil || got.Step != decider.Share {
			t.Errorf("the upstream has no room: %+v, %v", got, err)
		}
		if err := up.Return("jobs", other.ID, weir.Success); err != nil {
			t.Fatal(err)
		}
		if got, err := z.Renew(t.Context(), "jobs", own.ID, 0); err != nil || got.Step != decider.Exact || got.Inflight != 3 {
			t.Errorf("the upstream has room again: %+v, %v", got, err)
		}
		if _, err := z.Renew(t.Context(), "jobs", "no lease", 0); err != decider.ErrNoLease {
			t.Errorf("no lease: %v", err)
		}
		if _, err := z.lease("no rule", 1); err != decider.ErrNoLeasing {
			t.Errorf("no rule: %v", err)
		}
	})
}

// Leases are bounded by Config.MaxLeases while the upstream is away.
func TestTierLeasesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := &config.Rules{Rules: []config.Rule{{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 6}}}}
		z := &zone{t: t, wire: &wire{}}
		z.wire.cut.Store(true)
		var err error
		z.Tier, err = server.NewTier(server.Config{Rules: rules, MaxLeases: 2}, server.TierConfig{Name: "zone", Upstream: z.wire, Assigner: assigner{z.wire}})
		if err != nil {
			t.Fatal(err)
		}
		defer z.Disconnect(t.Context())
		z.mustLease("a", 1, decider.Share)
		z.mustLease("b", 1, decider.Share)
		z.refuses("c", 1, weir.OverLimit)
		time.Sleep(31 * time.Second)
		z.mustLease("c", 1, decider.Share)
	})
}

func TestTierConfig(t *testing.T) {
	for want, cfg := range map[string]server.TierConfig{
		`server: Name = "": must identify the node`:            {Upstream: &wire{}, Assigner: assigner{}},
		"server: a tier must have an Upstream and an Assigner": {Name: "a"},
		"server: Timeout = -1ns: must be >= 0":                 {Name: "a", Upstream: &wire{}, Assigner: assigner{}, Timeout: -1},
		"server: Leaves = -1, MaxKeys = 0: must be >= 0":       {Name: "a", Upstream: &wire{}, Assigner: assigner{}, Leaves: -1},
	} {
		if _, err := server.NewTier(server.Config{}, cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
