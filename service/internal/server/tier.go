package server

import (
	"context"

	"github.com/weir-go/weir/service/internal/server/assign"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/tier"
)

// Tier is a decider.Decider that is a leaf of another one, its upstream: it decides about rates
// by itself, by assignments (package tier), and passes a part of them on to leaves of its own.
type Tier struct {
	*Server
	tier   *tier.Counts
	relays *relays
}

var _ decider.Decider = (*Tier)(nil)

// TierConfig and TierStats are about the upstream of a Tier.
type (
	TierConfig = tier.Config
	TierStats  = tier.Stats
)

// NewTier returns a Tier, or an error about one of the configurations. It does not wait for the
// upstream. Disconnect ends it.
func NewTier(cfg Config, in TierConfig) (*Tier, error) {
	if err := in.Validate(); err != nil {
		return nil, err
	}
	t := new(Tier)
	t.relays = &relays{t, map[*assign.Bucket]*relayed{}}
	cfg.Instances, cfg.check, cfg.source = max(in.Leaves, 1), tier.Check, t.relays
	var err error
	t.Server, err = compose(cfg, func(s *Server, of *node.Config) {
		t.Server = s
		t.tier = tier.New(in, tier.Of{
			Node: s.memory.Node(), Leases: s.leases, Grants: s.grants, SetInstances: s.setInstances, OnExchange: t.refreshRelayed,
		}, s.memory)
		of.Counts, of.Leases, of.OnStep = t.tier, t.tier.Leases(), t.tier.OnStep
	})
	if err != nil {
		return nil, err
	}
	return t, t.tier.Start()
}

// Close rejects requests that would have to wait: see Server.Close.
func (t *Tier) Close(now bool) {
	t.Server.Close(now)
	if now {
		t.tier.Dismiss()
	}
}

// Disconnect gives the assignments back to the upstream, for as long as ctx allows, and ends the
// exchanges. It must be called once.
func (t *Tier) Disconnect(ctx context.Context) error { return t.tier.Disconnect(ctx) }

// Block has the Tier decide as if the upstream did not answer, for a reason that TierStats tell. Nil
// ends that.
func (t *Tier) Block(reason error) { t.tier.Block(reason) }

// TierStats returns the state, and the counts.
func (t *Tier) TierStats() TierStats { return t.tier.Stats() }
