package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafset"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Defaults of TierConfig.
const (
	DefaultTierTimeout = 100 * time.Millisecond
	DefaultAssignFrom  = 10.0
)

// TierConfig configures NewTier. Name, Upstream and Assigner are required.
type TierConfig struct {
	// Name identifies the node at the upstream. Two nodes must not have the same.
	Name string
	// Upstream decides about requests for keys without an assignment, about quotas that
	// requests bring, and about leases.
	Upstream decider.Decider
	// Assigner takes the exchanges of the node.
	Assigner leafset.Upstream
	// Timeout bounds the time for a decision of the upstream. After it, the node decides by
	// itself. If zero, DefaultTierTimeout.
	Timeout time.Duration
	// Away selects how requests are decided while the upstream does not answer, for rules that
	// do not say. If empty, config.AwayShare.
	Away config.Away
	// Leaves is the least number of leaves by which a limit is divided while the upstream does
	// not answer. The upstream tells how many there are. If zero, 1.
	Leaves int
	// AssignFrom is the least rate, in tokens a second, of the rules that are decided by
	// assignments. The upstream is asked about each request under a slower rule, because a
	// leaf would wait too long for the first token of its part. If zero, DefaultAssignFrom; if
	// negative, there is no such bound.
	AssignFrom float64
	// MaxKeys bounds the keys with assignments. If zero, 100,000.
	MaxKeys int
	// Idle has the node exchange with the upstream from the beginning, and also while it has no
	// keys, so that OnAway is called before the first request.
	Idle bool
	// OnAway, if not nil, is called with the reason when the upstream does not answer any more,
	// and with nil when it answers again. It must not block.
	OnAway func(error)
	// OnDegraded, if not nil, is called with a verdict of a degraded step: at most once a second.
	// It must not keep the verdict.
	OnDegraded func(key string, v *decider.Verdict)
}

// Validate returns an error that names the first invalid field.
func (c TierConfig) Validate() error {
	switch {
	case c.Name == "":
		return errors.New(`server: Name = "": must identify the node`)
	case c.Upstream == nil || c.Assigner == nil:
		return errors.New("server: a tier must have an Upstream and an Assigner")
	case c.Timeout < 0:
		return fmt.Errorf("server: Timeout = %v: must be >= 0", c.Timeout)
	case c.Leaves < 0 || c.MaxKeys < 0:
		return fmt.Errorf("server: Leaves = %d, MaxKeys = %d: must be >= 0", c.Leaves, c.MaxKeys)
	}
	return nil
}

// Tier is a decider.Decider that is a leaf of another one, its upstream: it decides about rates
// by itself, by assignments. The upstream decides about keys without an assignment, quotas that
// requests bring, and leases.
//
// While the upstream does not answer, a Tier decides by its last assignment until that ends,
// then by its share of the limit, or as the rule says. A Verdict tells the Step. The use by share
// is not reported to the upstream, whose buckets refill meanwhile.
type Tier struct {
	*Server
	cfg    TierConfig
	leaf   *leafset.Set
	link   tierLink
	held   tierLeases
	leaves leafCount

	ladder
	made      chan struct{}   // closed by NewTier: exchanges begin before it has set leaf
	dropped   atomic.Uint64   // costs that could not be reported to the upstream
	dismissed context.Context // ends when requests must not wait any longer
	dismiss   context.CancelFunc
}

var _ decider.Decider = (*Tier)(nil)

// NewTier returns a Tier, or an error about one of the configurations. It does not wait for the
// upstream. Disconnect ends it.
func NewTier(cfg Config, tier TierConfig) (*Tier, error) {
	if err := tier.Validate(); err != nil {
		return nil, err
	}
	tier.Timeout, tier.Away = cmp.Or(tier.Timeout, DefaultTierTimeout), cmp.Or(tier.Away, config.AwayShare)
	tier.Leaves, tier.AssignFrom = max(tier.Leaves, 1), cmp.Or(tier.AssignFrom, DefaultAssignFrom)
	t := &Tier{cfg: tier, held: newTierLeases(), ladder: ladder{onDegraded: tier.OnDegraded}, link: tierLink{onAway: tier.OnAway}, made: make(chan struct{})}
	cfg.Instances, cfg.check = tier.Leaves, checkUndated
	var err error
	t.Server, err = compose(cfg, func(s *Server, of *node.Config) {
		t.Server, s.tier, of.OnStep = s, t, t.ladder.note
		of.Counts, of.Leases = assigned{s.memory, t}, assignedLeases{s.leases, t}
	})
	if err != nil {
		return nil, err
	}
	t.leaves.least = tier.Leaves
	t.leaf, err = leafset.New(leafset.Config{
		Config:   leaf.Config{Name: tier.Name, MaxKeys: tier.MaxKeys, MaxWaiters: max(t.room.Max(), 1), Idle: tier.Idle, Share: tier.Away == config.AwayShare},
		Upstream: tierExchange{t},
	})
	if err != nil {
		return nil, err
	}
	t.dismissed, t.dismiss = context.WithCancel(context.Background())
	close(t.made)
	return t, nil
}

// checkUndated returns an error for rules that the upstream cannot share out.
func checkUndated(set *rules.Set) error {
	for _, r := range set.Rules {
		if err := undated(r); err != nil {
			return fmt.Errorf("server: rule %q: %w", r.Name, err)
		}
	}
	return nil
}

// Close rejects requests that would have to wait: see Server.Close.
func (t *Tier) Close(now bool) {
	t.Server.Close(now)
	if now {
		t.dismiss()
	}
}

// Disconnect gives the assignments back to the upstream, for as long as ctx allows, and ends the
// exchanges. It must be called once.
func (t *Tier) Disconnect(ctx context.Context) error {
	t.dismiss()
	return t.leaf.Close(ctx)
}

// Block has the Tier decide as if the upstream did not answer, for a reason that TierStats tell. Nil
// ends that.
func (t *Tier) Block(reason error) { t.link.block(reason) }

// TierStats are the state of a Tier, and counts.
type TierStats struct {
	Away      bool  // the upstream does not answer
	Reason    error // why; nil if it answers
	Leaves    int   // by which limits are divided without the upstream
	Keys      int   // that the node decides about by itself
	Assigned  int   // of them, with an assignment
	Leases    int   // held, that this node has granted or passed on
	Decisions [decider.StepsCount]uint64
	Asks      uint64 // requests that the upstream was asked about
	Late      uint64 // of them, without an answer
	Exchanges uint64
	Failures  uint64 // exchanges without an answer
	Over      uint64 // decisions about keys for which there was no room
	Dropped   uint64 // costs and ends of leases that could not be reported to the upstream
}

// TierStats returns the state, and the counts.
func (t *Tier) TierStats() TierStats {
	l := t.leaf.Stats()
	asks, late := t.link.counts()
	return TierStats{
		Away: t.link.away(), Reason: t.link.why(), Leaves: t.memory.Instances(), Keys: l.Keys, Assigned: l.Assigned, Leases: t.held.count(),
		Decisions: t.ladder.load(), Asks: asks, Late: late, Exchanges: l.Exchanges, Failures: l.Failures, Over: l.Over, Dropped: t.dropped.Load(),
	}
}
