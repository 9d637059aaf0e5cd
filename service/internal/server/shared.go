package server

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Defaults of StoreConfig.
const (
	DefaultPrefix = "weir:"
	DefaultKnown  = 10 * time.Second
)

// StoreConfig configures NewShared.
type StoreConfig struct {
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

// Shared is a decider.Decider that shares the limits of its rules with other nodes: their
// counts and leases are in Redis or Valkey. A decision is one call of a script there (package
// redisscript), by the clock of the store.
//
// While the store does not answer, the Server decides by shares: the limits of
// the rules divided by the number of nodes. A Verdict tells the Step. When the store is back, it
// is first charged for what was allowed meanwhile.
type Shared struct {
	*Server
	cfg    StoreConfig
	link   *redislink.Link
	debts  []debts // by lane
	held   sharedLeases
	nodes  nodes
	grants grant.Shared

	ladder
	dropped   atomic.Uint64
	latency   waiting.Histogram // of pipelines
	dismissed context.Context   // ends when requests must not wait any longer
	dismiss   context.CancelFunc
	stop      context.CancelFunc
	heartbeat sync.WaitGroup
}

var _ decider.Decider = (*Shared)(nil)

// NewShared returns a Shared. It does not wait for the store. The rules must not have limits
// that are auto. If the store is a Cluster, all buckets of a key must be in one slot: rules that
// all count for a key must not differ in config.Per.
func NewShared(cfg Config, store StoreConfig) (*Shared, error) {
	store.Prefix, store.Away = cmp.Or(store.Prefix, DefaultPrefix), cmp.Or(store.Away, config.AwayShare)
	store.Known = max(cmp.Or(store.Known, DefaultKnown), 0)
	s := &Shared{cfg: store, held: newSharedLeases(), ladder: ladder{onDegraded: store.OnDegraded}}
	cfg.Instances, cfg.cluster, cfg.noDates = max(store.Instances, 1), store.Link.Cluster, true
	store.Link.Backlog, store.Link.OnPipeline = s.backlog, s.latency.Add
	var err error
	if s.Server, err = New(cfg); err != nil {
		return nil, err
	}
	s.Server.counter, s.Server.ladder = stored{s}, &s.ladder
	s.link = redislink.New(store.Link)
	s.debts = make([]debts, s.link.Lanes())
	s.dismissed, s.dismiss = context.WithCancel(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.heartbeat.Go(func() { s.keepCounted(ctx) })
	return s, nil
}

// Sharing returns a Config with which New refuses the rules that NewShared refuses.
func (c Config) Sharing(cluster bool) Config {
	c.Instances, c.cluster, c.noDates = 1, cluster, true
	return c
}

// Close rejects requests that would have to wait: see Server.Close.
func (s *Shared) Close(now bool) {
	s.Server.Close(now)
	if now {
		s.dismiss()
	}
}

// Disconnect ends the calls to the store, and their goroutines. Tokens and leases that were given back before have half a
// second to get there.
func (s *Shared) Disconnect() {
	s.stop()
	s.heartbeat.Wait()
	s.link.Close()
}

// StoreStats are the state of the store as a Shared sees it, and counts.
type StoreStats struct {
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

// StoreStats returns the state of the store, and counts.
func (s *Shared) StoreStats() StoreStats {
	st := StoreStats{Stats: s.link.Stats(), Instances: int(s.shares.Load()), Leases: s.held.count(), Dropped: s.dropped.Load(), Latency: s.latency.Load()}
	st.Timeout = cmp.Or(s.cfg.Link.Timeout, redislink.DefaultTimeout)
	st.Decisions = s.ladder.load()
	return st
}

// A storedRule says how the store counts the buckets of a rule.
type storedRule struct {
	quota redisscript.Quota
	most  time.Duration // the most that a bucket is ahead of time, beyond its burst
	name  string        // ends the keys of its buckets
}

// clockGrain bounds the difference of two readings of the store's clock, of nodes that fail
// over to each other.
const clockGrain = time.Second

// storedRule returns how the store counts a rule with a rate; nil if the Server does not share
// its limits.
func (s *Server) storedRule(r *config.Rule, name string) (*storedRule, error) {
	switch {
	case s.cfg.noDates && r.Algorithm == config.Calendar:
		return nil, fmt.Errorf("algorithm: calendar counts in one process: instances cannot share its windows through a store or an upstream")
	case s.cfg.Instances == 0 || s.cfg.alone:
		return nil, nil
	case r.Concurrency != nil && r.Concurrency.Limit == config.Auto:
		return nil, fmt.Errorf("concurrency.limit: auto finds the limit of one instance: with a store of shared limits, give a number")
	case !r.Rated():
		return nil, nil
	}
	st := &storedRule{name: storedName(name) + kindSuffix(r.Algorithm)}
	var err error
	if st.quota, err = storedQuota(r.Quota); err != nil {
		return nil, fmt.Errorf("the store cannot count it: %w", err)
	}
	debt := r.Limit() // after an absence of the store
	if r.MaxDebt != nil {
		debt = max(debt, *r.MaxDebt)
	}
	if r.Rate.Count > 0 {
		refill := time.Duration(min(float64(debt)/float64(r.Rate.Count)*float64(r.Rate.Period), float64(maxStored)))
		st.most = max(refill, min(r.MaxWait, maxStored)) + clockGrain
	}
	return st, nil
}

// maxStored bounds times for the store, so that sums of them do not overflow.
const maxStored = time.Duration(1 << 60)

// storedQuota returns a quota as the store counts it.
func storedQuota(q config.Quota) (redisscript.Quota, error) {
	switch {
	case q.Algorithm == config.Sliding:
		return redisscript.NewWindow(redisscript.SlidingWindow, q.Rate.Count, q.Rate.Period)
	case q.Algorithm == config.FixedWindow:
		return redisscript.NewWindow(redisscript.ClockWindow, q.Rate.Count, q.Rate.Period)
	case q.Algorithm == config.Fixed, q.Rate.Count == 0: // nothing passes
		return redisscript.NewWindow(redisscript.FixedWindow, q.Rate.Count, q.Rate.Period)
	}
	return redisscript.NewQuota(gcra.Per(q.Rate.Count, q.Rate.Period, q.Limit()))
}
