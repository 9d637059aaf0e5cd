package decidertest

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
	deciding "github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// limits bound what requests may ask for.
func limits(rules *config.Rules) server.Config {
	return server.Config{Rules: rules, MaxLimit: 1000, MaxQueue: 1000}
}

// newMemory returns a node that counts in memory.
func newMemory(_ *testing.T, rules *config.Rules) (*node, error) {
	s, err := server.New(limits(rules))
	if err != nil {
		return nil, err
	}
	return &node{Decider: s, reload: s.Reload, reset: s.Reset, close: s.Close}, nil
}

// newShared returns a node that shares a store.
func newShared(t *testing.T, at *store, rules *config.Rules, cfg server.StoreConfig) (*node, error) {
	if err := at.clear(); err != nil {
		return nil, err
	}
	cfg.Link.Send = at.send
	s, err := server.NewShared(limits(rules), cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(s.Disconnect)
	return &node{Decider: s, reload: s.Reload, reset: s.Reset, close: s.Close, cut: at.away.Store}, nil
}

// newPair returns two nodes that share a store, and are asked in turn; without the store, the first.
func newPair(t *testing.T, at *store, rules *config.Rules, cfg server.StoreConfig) (*node, error) {
	one, err := newShared(t, at, rules, cfg)
	if err != nil {
		return nil, err
	}
	cfg.Link.Send = at.send
	other, err := server.NewShared(limits(rules), cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(other.Disconnect)
	time.Sleep(2 * time.Second) // both know the secret
	p := &pair{both: [2]decider.Decider{one.Decider, other}, away: &at.away}
	return &node{
		Decider: p, reset: one.reset, cut: one.cut,
		reload: func(rules *config.Rules) error { return errors.Join(one.reload(rules), other.Reload(rules)) },
		close: func(now bool) {
			one.close(now)
			other.Close(now)
		},
	}, nil
}

// A pair asks two Deciders in turn.
type pair struct {
	both [2]decider.Decider
	away *atomic.Bool
	turn atomic.Uint32
}

func (p *pair) next() decider.Decider {
	if p.away.Load() {
		return p.both[0]
	}
	return p.both[p.turn.Add(1)%2]
}

func (p *pair) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return p.next().Decide(ctx, req, v)
}

func (p *pair) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return p.next().Wait(ctx, req, v)
}

func (p *pair) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	return p.next().Batch(ctx, reqs, all, verdicts)
}

func (p *pair) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	return p.next().Descriptors(ctx, reqs, all, verdicts)
}

func (p *pair) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	return p.both[p.turn.Load()%2].AppendGrantID(b, g, key) // the one that has decided
}

func (p *pair) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	return p.next().Settle(ctx, key, id, n)
}

func (p *pair) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	return p.next().Acquire(ctx, req)
}

func (p *pair) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	return p.next().Renew(ctx, key, id, ttl)
}

func (p *pair) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	return p.next().Return(ctx, key, id, o)
}

func (p *pair) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	return p.next().Exchange(ctx, x, got)
}

func (p *pair) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	return p.next().Explain(ctx, key)
}

func (p *pair) Top(ctx context.Context, n int) ([]decider.Seen, error) { return p.next().Top(ctx, n) }

// newStoreLeaf returns a leaf of a store.
func newStoreLeaf(t *testing.T, at *store, rules *config.Rules, cfg server.StoreConfig) (*node, error) {
	if err := at.clear(); err != nil {
		return nil, err
	}
	cfg.Link.Send = at.send
	behind, err := server.NewShared(limits(rules), cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(behind.Disconnect)
	n, err := tierOf(t, rules, server.TierConfig{Leaves: 3, Upstream: behind, Assigner: behind.NewAssigner(server.DefaultAssignmentTTL)})
	if err != nil {
		return nil, err
	}
	own := n.reload
	n.reload = func(rules *config.Rules) error { return errors.Join(behind.Reload(rules), own(rules)) }
	n.cut = at.away.Store
	return n, nil
}

// newFallback returns a node that decides by its share, which is the whole limit.
func newFallback(_ *testing.T, rules *config.Rules) (*node, error) {
	f, err := server.NewFallback(limits(rules), config.AwayShare)
	if err != nil {
		return nil, err
	}
	return &node{Decider: fallback{f}, reload: func(rules *config.Rules) error { return f.Use(rules, 1) }, close: f.Close}, nil
}

// A fallback is a server.Fallback with what a ring never asks of it.
type fallback struct{ *server.Fallback }

var errNotAsked = errors.New("a ring does not ask this")

func (f fallback) Descriptors(context.Context, []decider.Request, bool, []decider.Verdict) (bool, error) {
	return false, errNotAsked
}
func (f fallback) AppendGrantID(b []byte, g decider.Grant, _ string) []byte {
	return append(b, g.ID...)
}
func (f fallback) Exchange(context.Context, *decider.LeafExchange, *decider.LeafAnswer) error {
	return errNotAsked
}
func (f fallback) Explain(context.Context, string) (decider.Explanation, error) {
	return decider.Explanation{}, errNotAsked
}
func (f fallback) Top(context.Context, int) ([]decider.Seen, error) { return nil, errNotAsked }

// A site serves a Decider to peers, over a network in memory.
type site struct {
	network *testrig.Network
}

// newSite serves until the story ends.
func newSite(t *testing.T, cfg serve.Config) *site {
	h, err := serve.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{testrig.Listen()}
	mux := http.NewServeMux()
	mux.Handle(wire.Path, h)
	srv := &http.Server{Handler: mux}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(s.network)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Shutdown(ended)
	})
	return s
}

// dial returns a client of the site.
func (s *site) dial(cfg peer.Config) (*peer.Client, error) {
	cfg.URL, cfg.Dial = "http://weir", s.network.Dial
	return peer.New(cfg)
}

// cut cuts the site off, or lets clients connect again.
func (s *site) cut(cut bool) {
	if !cut {
		s.network.Repair()
		time.Sleep(5 * time.Second) // clients try again
		return
	}
	s.network.Refuse()
	for _, c := range s.network.Conns() {
		_ = c.Close()
	}
}

// linked returns a client of a node over a link.
func linked(t *testing.T, behind *node) (*peer.Client, *site, error) {
	s := newSite(t, serve.Config{Decider: behind.Decider, Blocking: true})
	c, err := s.dial(peer.Config{})
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	synctest.Wait()
	return c, s, nil
}

// newLinked returns a client of a node that counts in memory.
func newLinked(t *testing.T, rules *config.Rules) (*node, error) {
	behind, err := newMemory(t, rules)
	if err != nil {
		return nil, err
	}
	c, s, err := linked(t, behind)
	if err != nil {
		return nil, err
	}
	return &node{Decider: c, reload: behind.reload, cut: s.cut}, nil
}

// An assigner takes the exchanges of a leaf over a link.
type assigner struct{ *peer.Client }

func (a assigner) Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	whole, got := decider.LeafExchange{Exchange: *x}, decider.LeafAnswer{}
	if err := a.Client.Exchange(ctx, &whole, &got); err != nil {
		return leaf.Answer{}, err
	}
	got.Resync = got.NeedsResync(&whole)
	return got.Answer, nil
}

// newLeaf returns a leaf of a node, over a link.
func newLeaf(t *testing.T, behind *node, rules *config.Rules, cfg server.TierConfig) (*node, error) {
	c, s, err := linked(t, behind)
	if err != nil {
		return nil, err
	}
	cfg.Upstream, cfg.Assigner = c, assigner{c}
	tier, err := tierOf(t, rules, cfg)
	if err != nil {
		return nil, err
	}
	tier.cut = s.cut
	own := tier.reload
	tier.reload = func(rules *config.Rules) error { return errors.Join(behind.reload(rules), own(rules)) }
	return tier, nil
}

// tierOf returns a leaf of an upstream that knows what leaves have.
func tierOf(t *testing.T, rules *config.Rules, cfg server.TierConfig) (*node, error) {
	cfg.Name = "leaf"
	tier, err := server.NewTier(limits(rules), cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = tier.Disconnect(ctx)
	})
	time.Sleep(server.DefaultAssignmentTTL)
	return &node{Decider: tier, reload: tier.Reload, reset: tier.Reset, close: tier.Close}, nil
}

// newTier returns a leaf of a node that counts in memory.
func newTier(cfg server.TierConfig) func(*testing.T, *config.Rules) (*node, error) {
	return func(t *testing.T, rules *config.Rules) (*node, error) {
		behind, err := newMemory(t, rules)
		if err != nil {
			return nil, err
		}
		return newLeaf(t, behind, rules, cfg)
	}
}

// newTiers returns a leaf of a leaf.
func newTiers(cfg server.TierConfig) func(*testing.T, *config.Rules) (*node, error) {
	return func(t *testing.T, rules *config.Rules) (*node, error) {
		behind, err := newTier(cfg)(t, rules)
		if err != nil {
			return nil, err
		}
		return newLeaf(t, behind, rules, cfg)
	}
}

// newToy returns a node that counts in a map.
func newToy(_ *testing.T, first *config.Rules) (*node, error) {
	c, room, bounds := clock.New(), waiting.NewRoom(1000), counts.Bounds{MaxLimit: 1000, MaxQueue: 1000}
	t := &toy{Node: counts.Node{Bounds: bounds, Clock: c, Room: room}, Ledger: grant.NewLedger(), all: map[string]*toyBucket{}}
	leases := lease.NewRegistry(c, room, 1000, nil)
	n := deciding.New(deciding.Config{Bounds: bounds, Clock: c, Keys: rules.NewKeys(1000), Counts: t, Leases: leases})
	reload := func(next *config.Rules) error { return n.Reload(next, nil) }
	return &node{Decider: toyNode{n}, reload: reload, reset: n.Reset, close: func(now bool) {
		if room.Close(); now {
			t.queues(func(q *quota.Queue) bool { q.Dismiss(weir.Reject(weir.Closed, waiting.DrainRetry)); return true })
			leases.Dismiss(waiting.DrainRetry)
		}
	}}, reload(first)
}

// A toyNode has no leaves.
type toyNode struct{ *deciding.Node }

func (toyNode) Exchange(context.Context, *decider.LeafExchange, *decider.LeafAnswer) error {
	return errNotAsked
}
