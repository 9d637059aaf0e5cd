package server

import (
	"context"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/store"
)

// Shared is a decider.Decider that shares the limits of its rules with other nodes: their
// counts and leases are in Redis or Valkey (package store). A Verdict tells the Step.
type Shared struct {
	*Server
	store *store.Counts
}

var _ decider.Decider = (*Shared)(nil)

// StoreConfig and StoreStats are about the store of a Shared.
type (
	StoreConfig = store.Config
	StoreStats  = store.Stats
)

// NewShared returns a Shared. It does not wait for the store. The rules must not have limits
// that are auto. If the store is a Cluster, all buckets of a key must be in one slot: rules that
// all count for a key must not differ in config.Per.
func NewShared(cfg Config, in StoreConfig) (*Shared, error) {
	s := new(Shared)
	cfg = cfg.Sharing(in.Link.Cluster)
	cfg.Instances = max(in.Instances, 1)
	var err error
	s.Server, err = compose(cfg, func(server *Server, of *node.Config) {
		s.store = store.New(in, store.Of{
			Node: server.memory.Node(), Keys: of.Keys, Leases: server.leases, SetInstances: server.setInstances,
			Set: func() *rules.Set { return server.Set() },
		}, server.memory)
		of.Counts, of.Leases, of.OnStep = s.store, s.store.Leases(), s.store.OnStep
	})
	if err != nil {
		if s.store != nil {
			s.store.Disconnect()
		}
		return nil, err
	}
	s.store.Start()
	return s, nil
}

// Sharing returns a Config with which New refuses the rules that NewShared refuses.
func (c Config) Sharing(cluster bool) Config {
	c.Instances, c.check = 1, func(set *rules.Set) error { return store.Check(set, cluster) }
	return c
}

// Close rejects requests that would have to wait: see Server.Close.
func (s *Shared) Close(now bool) {
	s.Server.Close(now)
	if now {
		s.store.Dismiss()
	}
}

// Disconnect ends the calls to the store, and their goroutines. Tokens and leases that were given back before have half a
// second to get there.
func (s *Shared) Disconnect() { s.store.Disconnect() }

// Joined reports whether the store has counted this node, at any time: see store.Counts.
func (s *Shared) Joined() bool { return s.store.Joined() }

// StoreStats returns the state of the store, and counts.
func (s *Shared) StoreStats() StoreStats { return s.store.Stats() }

// Exchange shares rates out among leaves: see decider.Decider. What it shares out is this
// node's share of the limits; what leaves have used is charged in the store.
func (s *Shared) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	set := s.Set()
	for i := range x.Reports {
		if r := &x.Reports[i]; r.Used > 0 {
			s.store.Charge(set, r.Key, r.Used)
		}
	}
	return s.Server.Exchange(ctx, x, got)
}
