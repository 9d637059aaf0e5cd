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
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/rules"
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
	stored atomic.Pointer[storedSet] // nil if rules overlay each other

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
	cfg = cfg.Sharing(store.Link.Cluster)
	cfg.Instances = max(store.Instances, 1)
	store.Link.Backlog, store.Link.OnPipeline = s.backlog, s.latency.Add
	s.link = redislink.New(store.Link)
	s.debts = make([]debts, s.link.Lanes())
	s.dismissed, s.dismiss = context.WithCancel(context.Background())
	var err error
	s.Server, err = compose(cfg, func(server *Server, of *node.Config) {
		s.Server, of.OnStep = server, s.ladder.note
		of.Counts, of.Leases = stored{server.memory, s}, storedLeases{server.leases, s}
	})
	if err != nil {
		s.link.Close()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.heartbeat.Go(func() { s.keepCounted(ctx) })
	return s, nil
}

// Sharing returns a Config with which New refuses the rules that NewShared refuses.
func (c Config) Sharing(cluster bool) Config {
	c.Instances, c.check = 1, func(set *rules.Set) error { return checkStored(set, cluster) }
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
	st := StoreStats{Stats: s.link.Stats(), Instances: s.memory.Instances(), Leases: s.held.count(), Dropped: s.dropped.Load(), Latency: s.latency.Load()}
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

// checkStored returns an error for rules that a store cannot count.
func checkStored(set *rules.Set, cluster bool) error {
	for _, r := range set.Rules {
		err := undated(r)
		switch {
		case err != nil:
		case r.Concurrency != nil && r.Concurrency.Limit == config.Auto:
			err = fmt.Errorf("concurrency.limit: auto finds the limit of one instance: with a store of shared limits, give a number")
		case r.Rated():
			_, err = newStoredRule(r, r.Name)
		}
		if err != nil {
			return fmt.Errorf("server: rule %q: %w", r.Name, err)
		}
	}
	if cluster {
		return checkSlots(set)
	}
	return nil
}

// undated returns an error for a rule that nodes which share its limits cannot count in common.
func undated(r *rules.Rule) error {
	if r.Algorithm == config.Calendar {
		return fmt.Errorf("algorithm: calendar counts in one process: instances cannot share its windows through a store or an upstream")
	}
	return nil
}

// storedSet has how the store counts the rules of a Set, by Rule.Index; nil for rules without a rate.
type storedSet struct {
	set   *rules.Set
	rules []*storedRule
}

// Use takes rules that come into force soon: see counts.Counts.
func (s stored) Use(next *rules.Set) (done func(), err error) {
	if done, err = s.Counts.Use(next); err == nil && !next.Config.Merge {
		all := &storedSet{set: next, rules: make([]*storedRule, len(next.Rules))}
		for i, r := range next.Rules {
			if r.Rated() {
				all.rules[i], _ = newStoredRule(r, r.Name) // no error: they are checked
			}
		}
		s.stored.Store(all)
	}
	return done, err
}

// storedRule returns how the store counts a rule with a rate.
func (s *Shared) storedRule(set *rules.Set, r *rules.Rule) *storedRule {
	if all := s.stored.Load(); all != nil && all.set == set {
		return all.rules[r.Index]
	}
	name := r.Name
	if set.Config.Merge {
		name = memory.WindowName(r.Rate.Period)
	}
	st, _ := newStoredRule(r, name) // windows of all periods can be stored
	return st
}

// newStoredRule returns how the store counts a rule with a rate, by a name.
func newStoredRule(r *rules.Rule, name string) (*storedRule, error) {
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
