// Package node decides about requests by rules: it finds the rules of a key, asks the Counts, makes one verdict of what they
// answer, and counts it. It does not know where counts and leases are kept.
package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/record"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Config configures a Node. Clock, Keys, Counts and Leases are required.
type Config struct {
	counts.Bounds
	Clock  *clock.Clock
	Keys   *rules.Keys
	Counts counts.Counts
	Leases Leases
	// Slots tells which keys the node decides about; nil if about all.
	Slots Slots
	// OnStep, if not nil, is called with each verdict that was made by others than the Counts of the node, or has another
	// Step than decider.Exact. It must not keep the verdict.
	OnStep func(key string, v *decider.Verdict)
	// Recorder, if not nil, makes a record of each request that may wait.
	Recorder *record.Recorder
}

// Leases keep the leases of keys, each under the rules of a match: see decider.Decider. If they do not know its Set any more,
// the error is waiting.ErrMoved.
type Leases interface {
	// Acquire grants a lease. After waiting.ErrMoved, it is called again with the Wait that it has returned.
	Acquire(ctx context.Context, m *rules.Match, req decider.LeaseRequest, again lease.Wait) (decider.Lease, lease.Wait, error)
	Renew(ctx context.Context, m *rules.Match, key, id string, ttl time.Duration) (decider.Lease, error)
	Return(ctx context.Context, m *rules.Match, key, id string, o weir.Outcome) error
	// Look sets the Lease of the states of rules.
	Look(ctx context.Context, m *rules.Match, key string, states []decider.RuleState) error
	// Use takes rules that come into force soon, and Publish puts them into force by a call of publish.
	Use(next *rules.Set)
	Publish(publish func())
}

// Slots tells which slots of keys a node owns.
type Slots interface {
	// OwnsAll reports whether the node owns all slots and has their state, so that no request needs Await.
	OwnsAll() bool
	// Await waits for the state of a slot. The error is decider.ErrMoved if another node owns it, or that of ctx.
	Await(ctx context.Context, slot uint16) error
}

// A Node decides. It is safe for concurrent use. But for Exchange, it is a decider.Decider.
type Node struct {
	cfg    Config
	clock  *clock.Clock
	keys   *rules.Keys
	counts counts.Counts
	leases Leases
	rules  atomic.Pointer[rules.Set]

	batches       batches
	again         func(*counts.Asked) bool // find
	refusedLeases leaseRefusals

	unmatchedDenied, unmatchedAllowed atomic.Uint64
	unmatchedOverOwn                  atomic.Uint64 // denied by a quota of their own
}

// New returns a Node that has no rules yet: call Reload before any other method.
func New(cfg Config) *Node {
	n := &Node{cfg: cfg, clock: cfg.Clock, keys: cfg.Keys, counts: cfg.Counts, leases: cfg.Leases}
	n.again = n.find
	return n
}

// Set returns the rules in force.
func (n *Node) Set() *rules.Set { return n.rules.Load() }

// Rules returns the rules in force. They must not be changed.
func (n *Node) Rules() *config.Rules { return n.Set().Config }

// Now returns the time since the node's epoch, in which verdicts have their instants.
func (n *Node) Now() time.Duration { return n.clock.Now() }

// Match returns the rules in force that count for a key.
func (n *Node) Match(key string) *rules.Match { return n.keys.Find(key, n.Set()).Match }

// Reload puts rules into force; ready, if not nil, is called before that, when all have been made. If there is an error, nothing changes. Calls
// must not be concurrent. The rules must be complete, as config.Load returns them, and must not be changed afterwards.
func (n *Node) Reload(cfg *config.Rules, ready func()) error {
	next, err := rules.Compile(cfg, n.Set())
	if err != nil {
		return err
	}
	done, err := n.counts.Use(next)
	if err != nil {
		return err
	}
	n.leases.Use(next)
	if ready != nil {
		ready()
	}
	n.leases.Publish(func() { n.rules.Store(next) })
	n.keys.Invalidate()
	done()
	return nil
}

// Enter is called before a request for a key: see Slots.Await.
func (n *Node) Enter(ctx context.Context, key string) error {
	if n.ownsAll() {
		return nil
	}
	return n.cfg.Slots.Await(ctx, n.RouteKey(key))
}

func (n *Node) ownsAll() bool { return n.cfg.Slots == nil || n.cfg.Slots.OwnsAll() }

// enterRequest is Enter for a request that may bring a quota.
func (n *Node) enterRequest(ctx context.Context, req *decider.Request) error {
	if n.ownsAll() {
		return nil
	}
	return n.cfg.Slots.Await(ctx, n.Route(req))
}

// enterAll is Enter for many requests.
func (n *Node) enterAll(ctx context.Context, reqs []decider.Request) error {
	for i := 0; i < len(reqs) && !n.ownsAll(); i++ {
		if err := n.enterRequest(ctx, &reqs[i]); err != nil {
			return err
		}
	}
	return nil
}

// moved reports whether a request is to be decided again, because the rules have changed.
func moved(err error) bool { return err == waiting.ErrMoved }
