// Package server implements the decisions of weir serve: rate limits, queues and
// leases per key, independent of the wire protocol.
//
// A key is a text that callers choose: a user, a tenant, a route, a job. Rules
// (package config) state how many tokens the keys that match them get, and how
// many leases may be held at once.
//
//	s, err := server.New(server.Config{Rules: rules})
//	...
//	var v decider.Verdict
//	err = s.Decide(ctx, &decider.Request{Key: "user:42", N: 1}, &v)
//	if !v.OK { ... v.Reason, v.RetryAfter ... }
//
// Wait waits for tokens in order of arrival. Settle reports the true cost of a
// grant. Acquire takes a lease.
//
// # Parts
//
// Package node decides, memory counts tokens and queues requests, lease holds concurrency limits, rules compiles and finds
// rules, assign shares limits out among leaves, grant seals ids, and snapshot saves the state, restores it and hands it over. A Server
// composes them.
//
// # Bounds
//
// Counts are kept in Config.Memory (package keyedtable): a key costs nothing once its
// bucket is full again, and a flood of fresh keys does not refill any bucket. The
// numbers of waiting requests, leases, remembered keys and settled grants are
// bounded. No key has a goroutine or a timer.
package server

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/assign"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/record"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/snapshot"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Default bounds of Config.
const (
	DefaultMemory     = 64 << 20
	DefaultMaxWaiting = 20_000
	DefaultMaxLeases  = 100_000
	DefaultKeys       = 1 << 16

	DefaultAssignmentTTL  = 30 * time.Second
	DefaultMaxAssignments = 500_000
)

// Config configures a Server. The zero value allows every request.
type Config struct {
	// Rules are the first rules. If nil, there are none.
	Rules *config.Rules
	// Memory bounds the counts, in bytes. Rules and candidates that do not have their own
	// memory have equal shares of what is left, but at least 64 KiB each, so more
	// than that many need more. If a reload makes its share smaller, a rule can keep 2.1 MiB,
	// or a 64th of what it had. A snapshot takes less than a MiB on top; counts of missing
	// rules, which Restore keeps for a day, stay in its file. If zero, DefaultMemory.
	Memory int
	// OwnQuotas gives the buckets of quotas that requests bring a share of Memory, as a
	// rule has. If false, they have 64 KiB on top of it.
	OwnQuotas bool
	// MaxWaiting bounds the requests that wait, for all keys together. If zero,
	// DefaultMaxWaiting; if negative, no request waits.
	MaxWaiting int
	// MaxLeases bounds the leases held, for all keys together. If zero,
	// DefaultMaxLeases.
	MaxLeases int
	// Keys bounds the number of keys, of up to 256 bytes, that the Server remembers
	// for Top and to skip the lookup of their rules. It is rounded up to a power of
	// two. If zero, DefaultKeys.
	Keys int
	// MaxLimit and MaxQueue bound what a request may ask for in Request.Limit and
	// Request.Queue. If zero, these fields are ignored.
	MaxLimit, MaxQueue int
	// AssignmentTTL is how long a leaf may use an assignment. If zero,
	// DefaultAssignmentTTL.
	AssignmentTTL time.Duration
	// MaxAssignments bounds the assignments of keys, of all leaves together. Each takes about
	// 300 bytes, besides Memory. One leaf has at most half of them; reports about other keys get an error. If
	// zero, DefaultMaxAssignments.
	MaxAssignments int

	// Fleet is a secret that the members of a fleet share, each of which owns some slots: see
	// Route. If empty, the Server is alone. With a Fleet, fingerprints of keys and the seals of
	// ids are the same at all members, and all rules that count for a key must route alike.
	Fleet string
	// Clock is the time of the node. If nil, the real one.
	Clock *clock.Clock
	// Instances, if > 0, makes the limits of the Server shares: the limits of the rules
	// divided by this number. See Shared.
	Instances int
	// Recorder, if not nil, gets a record of each lease, and of each request that may wait.
	Recorder *recording.Recorder
	// check, if not nil, returns an error for rules that the nodes which share the limits cannot count.
	check func(*rules.Set) error
	// source, if not nil, has what leaves share.
	source assign.Source
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"Memory", c.Memory}, {"MaxLeases", c.MaxLeases}, {"Keys", c.Keys}, {"MaxLimit", c.MaxLimit}, {"MaxQueue", c.MaxQueue}, {"Instances", c.Instances}, {"MaxAssignments", c.MaxAssignments}} {
		if f.value < 0 {
			return fmt.Errorf("server: %s = %d: must be >= 0", f.name, f.value)
		}
	}
	if c.Fleet != "" && c.Instances > 0 {
		return fmt.Errorf("server: Fleet, Instances = %d: a Server with a store is in no fleet", c.Instances)
	}
	if c.AssignmentTTL < 0 {
		return fmt.Errorf("server: AssignmentTTL = %v: must be >= 0", c.AssignmentTTL)
	}
	return nil
}

// A Server is a decider.Decider that decides in this process. It is safe for
// concurrent use.
type Server struct {
	*node.Node
	*snapshot.Keeper
	cfg      Config
	bounds   counts.Bounds
	clock    *clock.Clock
	assigner *assign.Assigner
	keys     *rules.Keys
	room     *waiting.Room
	grants   memory.Ledger
	memory   *memory.Counts
	leases   *lease.Registry

	owned  *snapshot.Owned
	reload sync.Mutex // held while the rules change
}

var _ decider.Decider = (*Server)(nil)

// New returns a Server, or an error about the Config.
func New(cfg Config) (*Server, error) {
	return compose(cfg, func(*Server, *node.Config) {})
}

// compose returns a Server with a node that counts in memory unless change, which is called before the rules are compiled, has
// it count elsewhere.
func compose(cfg Config, change func(*Server, *node.Config)) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Memory = cmp.Or(cfg.Memory, DefaultMemory)
	cfg.AssignmentTTL = cmp.Or(cfg.AssignmentTTL, DefaultAssignmentTTL)
	room, c := waiting.NewRoom(cmp.Or(cfg.MaxWaiting, DefaultMaxWaiting)), cfg.Clock
	if c == nil {
		c = clock.New()
	}
	recorder := record.New(cfg.Recorder)
	s := &Server{
		cfg: cfg, bounds: counts.Bounds{MaxLimit: cfg.MaxLimit, MaxQueue: cfg.MaxQueue}, clock: c, room: room, keys: rules.NewKeys(cmp.Or(cfg.Keys, DefaultKeys)),
		grants: grant.NewLedger(), leases: lease.NewRegistry(c, room, cmp.Or(cfg.MaxLeases, DefaultMaxLeases), recorder),
	}
	in := memory.Config{
		Node:   counts.Node{Bounds: s.bounds, Clock: c, Room: room},
		Memory: cfg.Memory, OwnQuotas: cfg.OwnQuotas, Instances: cfg.Instances, Check: cfg.check,
	}
	of := node.Config{Bounds: in.Bounds, Clock: c, Keys: s.keys, Leases: s.leases, Recorder: recorder}
	s.owned = snapshot.NewOwned(c, func(key string) uint16 { return s.RouteKey(key) })
	chunks := s.join(&in, &of)
	var err error
	if s.memory, err = memory.New(in); err != nil {
		return nil, err
	}
	of.Counts = s.memory
	shares := assign.Config{
		Memory: s.memory, Keys: s.keys, Clock: c, TTL: cfg.AssignmentTTL, Most: cmp.Or(cfg.MaxAssignments, DefaultMaxAssignments),
		Source: cfg.source, NewOwner: s.owned.Sharing, Unmatched: func(n uint64) { s.DenyUnmatched(n) },
	}
	s.assigner = assign.New(shares)
	s.Keeper = snapshot.New(snapshot.Config{
		Clock: c, Keys: s.keys, Set: func() *rules.Set { return s.Set() }, Memory: s.memory, Leases: s.leases, Grants: s.grants,
		Leaves: s.assigner, TTL: cfg.AssignmentTTL, Owned: s.owned, Chunks: chunks, Reload: &s.reload,
	})
	change(s, &of)
	s.Node = node.New(of)
	if err := s.Reload(cmp.Or(cfg.Rules, new(config.Rules))); err != nil {
		return nil, err
	}
	return s, nil
}

// First tells that no process was before this one. It must be called before any other use of the Server.
func (s *Server) First() { s.assigner.First() }

// Exchange shares rates out among leaves: see decider.Decider. The error is decider.ErrLeaves if the leaf is new and there
// are too many, or decider.ErrMoved.
func (s *Server) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	for i := 0; i < len(x.Reports) && !s.owned.OwnsAll(); i++ {
		if err := s.Enter(ctx, x.Reports[i].Key); err != nil {
			return err
		}
	}
	return s.assigner.Exchange(x, got)
}

// Reload replaces the rules. A rule with the same name keeps its counts, its queue
// and its leases, unless its new quota is of another kind. A new rate does not
// change the tokens in its buckets. A request that waits stays where it is unless other
// rules count for its key now: then it waits under these, before requests that arrive
// later. If there is an error, nothing changes.
//
// The rules must be complete, as config.Load returns them, and must not be changed
// afterwards.
func (s *Server) Reload(cfg *config.Rules) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	return s.reloadLocked(cfg)
}

func (s *Server) reloadLocked(cfg *config.Rules) error { return s.Node.Reload(cfg, s.Reclaim) }

// setInstances changes the number of nodes that share the limits.
func (s *Server) setInstances(n int) {
	s.reload.Lock()
	defer s.reload.Unlock()
	if s.memory.SetInstances(n) != n {
		_ = s.reloadLocked(s.Rules()) // no error: they are in force
	}
}

// Close rejects new requests that would have to wait, and new leases. If now is
// set, it also rejects the requests that are waiting, with the reason weir.Closed
// and a RetryAfter. Other decisions are still made, and leases can be returned.
func (s *Server) Close(now bool) {
	s.reload.Lock() // requests that wait stay where they are
	defer s.reload.Unlock()
	s.room.Close()
	if !now {
		return
	}
	s.memory.Dismiss(weir.Reject(weir.Closed, waiting.DrainRetry))
	s.leases.Dismiss(waiting.DrainRetry)
}

// Awaits reports whether requests for keys in a slot are held, because its state is still to come.
func (s *Server) Awaits(at uint16) bool { return s.owned.Awaits(at) }

// Waiting returns how many requests wait, for tokens or for leases.
func (s *Server) Waiting() int { return s.room.Len() }
