// Package store keeps the counts and leases of nodes in Redis or Valkey, where they share them. A decision is one call of a script
// there (package redisscript), by the clock of the store.
//
// While the store does not answer, a node decides by its share: the limits of the rules divided by the number of nodes. When
// the store is back, it is first charged for what was allowed meanwhile.
package store

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/away"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Defaults of Config.
const (
	DefaultPrefix = "weir:"
	DefaultKnown  = 10 * time.Second
)

// Config configures Counts.
type Config struct {
	// Link configures the link to the store, with Send. Its Backlog is not used.
	Link redislink.Config
	// Prefix begins all keys in the store, without braces. If empty, DefaultPrefix.
	Prefix string
	// Away selects how requests are decided while the store does not answer, for rules that
	// do not say. If empty, config.AwayShare.
	Away config.Away
	// Known is for how long after the store's last answer the node decides by what that has
	// told. If zero, DefaultKnown; if negative, there is no such time.
	Known time.Duration
	// Instances is the number of nodes that share the store. If zero, they are counted in the
	// store.
	Instances int
	// OnDegraded, if not nil, is called with a verdict that the store has not made: at most
	// once a second. It must not keep the verdict.
	OnDegraded func(key string, v *decider.Verdict)
}

// Of is the node that has its counts in the store.
type Of struct {
	counts.Node
	Keys         *rules.Keys
	Leases       *lease.Registry   // of the limits that count leases
	Set          func() *rules.Set // in force
	SetInstances func(int)         // changes the number of nodes that share the limits
}

// Counts are counts.Counts in a store. While that does not answer, the node is alone.
type Counts struct {
	*memory.Counts // of the node's share
	cfg            Config
	of             Of
	link           *redislink.Link
	debts          []debts // by lane
	share          away.Share
	held           *away.Leases
	waits          leaseWaits
	nodes          nodes
	grants         grant.Shared
	stored         atomic.Pointer[storedSet] // nil if rules overlay each other

	ladder    away.Ladder
	dropped   atomic.Uint64
	latency   waiting.Histogram // of pipelines
	dismissed context.Context   // ends when requests must not wait any longer
	dismiss   context.CancelFunc
	stop      context.CancelFunc
	heartbeat sync.WaitGroup
}

var _ counts.Counts = (*Counts)(nil)

// New returns Counts beside those of the node's share. It does not wait for the store. Start must be called when rules are in force. Counts
// are checked by Check.
func New(cfg Config, of Of, share *memory.Counts) *Counts {
	cfg.Prefix, cfg.Away = cmp.Or(cfg.Prefix, DefaultPrefix), cmp.Or(cfg.Away, config.AwayShare)
	cfg.Known = max(cmp.Or(cfg.Known, DefaultKnown), 0)
	s := &Counts{Counts: share, cfg: cfg, of: of, waits: leaseWaits{n: map[string]int{}}, ladder: away.Ladder{OnDegraded: cfg.OnDegraded}}
	cfg.Link.Backlog, cfg.Link.OnPipeline = s.backlog, s.latency.Add
	s.link = redislink.New(cfg.Link)
	s.debts = make([]debts, s.link.Lanes())
	s.dismissed, s.dismiss = context.WithCancel(context.Background())
	s.share = away.Share{Counts: share, Otherwise: cfg.Away}
	s.held = away.NewLeases(of.Leases, s.share, &s.ladder)
	return s
}

// Start begins to report the node to the store.
func (s *Counts) Start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.heartbeat.Go(func() { s.keepCounted(ctx) })
}

// OnStep counts a verdict: see node.Config.
func (s *Counts) OnStep(key string, v *decider.Verdict) { s.ladder.Note(key, v) }

// Leases returns the leases in the store: see node.Leases.
func (s *Counts) Leases() Leases { return Leases{s.of.Leases, s} }

// Dismiss ends the waits of requests.
func (s *Counts) Dismiss() { s.dismiss() }

// Disconnect ends the calls to the store, and their goroutines. Tokens and leases that were given back before have half a
// second to get there.
func (s *Counts) Disconnect() {
	if s.stop != nil {
		s.stop()
	}
	s.heartbeat.Wait()
	s.link.Close()
}

// Stats are the state of the store as a node sees it, and counts.
type Stats struct {
	redislink.Stats
	Instances int                        // nodes that share the limits
	Leases    int                        // held, that this node has granted
	Decisions [decider.StepsCount]uint64 // by Step
	Latency   waiting.Times              // of pipelines that were answered
	Timeout   time.Duration              // for a decision in the store
	// Dropped counts costs that could not be reported to the store: their tokens return with
	// time.
	Dropped uint64
}

// Stats returns the state of the store, and counts.
func (s *Counts) Stats() Stats {
	st := Stats{Stats: s.link.Stats(), Instances: s.Instances(), Leases: s.held.Count(), Dropped: s.dropped.Load(), Latency: s.latency.Load()}
	st.Timeout = cmp.Or(s.cfg.Link.Timeout, redislink.DefaultTimeout)
	st.Decisions = s.ladder.Load()
	return st
}
