// Package tier counts by assignments: the node is a leaf of an upstream, decides about rates by itself, and asks the upstream about keys
// without an assignment, quotas that requests bring, and leases.
//
// While the upstream does not answer, the node decides by its last assignment until that ends,
// then by its share of the limit, or as the rule says. The use by share
// is not reported to the upstream: its buckets refill meanwhile.
package tier

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
	"github.com/weir-go/weir/service/internal/server/away"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Defaults of Config.
const (
	DefaultTimeout    = 100 * time.Millisecond
	DefaultAssignFrom = 10.0
)

// Config configures New. Name, Upstream and Assigner are required.
type Config struct {
	// Name identifies the node at the upstream. Two nodes must not have the same.
	Name string
	// Upstream decides about requests for keys without an assignment, about quotas that
	// requests bring, and about leases.
	Upstream decider.Decider
	// Assigner takes the exchanges of the node.
	Assigner leafset.Upstream
	// Timeout bounds the time for a decision of the upstream. After it, the node decides by
	// itself. If zero, DefaultTimeout.
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
func (c Config) Validate() error {
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

// Of is the node that is a leaf.
type Of struct {
	counts.Node
	Leases       *lease.Registry // of the limits that count leases
	Grants       memory.Ledger   // also of the memory
	SetInstances func(int)       // changes the number of leaves by which limits are divided without the upstream
	OnExchange   func()          // is called before each exchange with the upstream
}

// Counts are counts.Counts by assignments.
type Counts struct {
	*memory.Counts // of what the node decides by itself
	cfg            Config
	of             Of
	leaf           *leafset.Set
	link           link
	share          away.Share
	held           *away.Leases
	leaves         leafCount

	ladder    away.Ladder
	started   chan struct{}   // closed by Start: exchanges begin before it has set leaf
	dropped   atomic.Uint64   // costs that could not be reported to the upstream
	dismissed context.Context // ends when requests must not wait any longer
	dismiss   context.CancelFunc
}

var _ counts.Counts = (*Counts)(nil)

// New returns Counts beside those of what the node decides by itself, with a Config that is valid. Start must be called when
// rules are in force, before any other use.
func New(cfg Config, of Of, own *memory.Counts) *Counts {
	cfg.Timeout, cfg.Away = cmp.Or(cfg.Timeout, DefaultTimeout), cmp.Or(cfg.Away, config.AwayShare)
	cfg.Leaves, cfg.AssignFrom = max(cfg.Leaves, 1), cmp.Or(cfg.AssignFrom, DefaultAssignFrom)
	t := &Counts{
		Counts: own, cfg: cfg, of: of, ladder: away.Ladder{OnDegraded: cfg.OnDegraded}, link: link{onAway: cfg.OnAway},
		share: away.Share{Counts: own, Otherwise: cfg.Away}, leaves: leafCount{least: cfg.Leaves}, started: make(chan struct{}),
	}
	t.held = away.NewLeases(of.Leases, t.share, &t.ladder)
	t.dismissed, t.dismiss = context.WithCancel(context.Background())
	return t
}

// Check returns an error for rules that an upstream cannot share out.
func Check(set *rules.Set) error {
	for _, r := range set.Rules {
		if err := away.Undated(r); err != nil {
			return fmt.Errorf("server: rule %q: %w", r.Name, err)
		}
	}
	return nil
}

// Start begins the exchanges with the upstream. Disconnect ends them.
func (t *Counts) Start() (err error) {
	defer close(t.started)
	t.leaf, err = leafset.New(leafset.Config{
		Config:   leaf.Config{Name: t.cfg.Name, MaxKeys: t.cfg.MaxKeys, MaxWaiters: max(t.of.Room.Max(), 1), Idle: t.cfg.Idle, Share: t.cfg.Away == config.AwayShare},
		Upstream: exchange{t},
	})
	return err
}

// Leaf returns the assignments.
func (t *Counts) Leaf() *leafset.Set { return t.leaf }

// OnStep counts a verdict: see node.Config.
func (t *Counts) OnStep(key string, v *decider.Verdict) { t.ladder.Note(key, v) }

// Leases returns the leases of the upstream: see node.Leases.
func (t *Counts) Leases() Leases { return Leases{t.of.Leases, t} }

// Dismiss ends the waits of requests.
func (t *Counts) Dismiss() { t.dismiss() }

// Disconnect gives the assignments back to the upstream, for as long as ctx allows, and ends the
// exchanges. It must be called once.
func (t *Counts) Disconnect(ctx context.Context) error {
	t.dismiss()
	return t.leaf.Close(ctx)
}

// Block has the node decide as if the upstream did not answer, for a reason that Stats tell. Nil
// ends that.
func (t *Counts) Block(reason error) { t.link.block(reason) }

// Stats are the state of the leaf, and counts.
type Stats struct {
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

// Stats returns the state, and the counts.
func (t *Counts) Stats() Stats {
	l := t.leaf.Stats()
	asks, late := t.link.counts()
	return Stats{
		Away: t.link.away(), Reason: t.link.why(), Leaves: t.Instances(), Keys: l.Keys, Assigned: l.Assigned, Leases: t.held.Count(),
		Decisions: t.ladder.Load(), Asks: asks, Late: late, Exchanges: l.Exchanges, Failures: l.Failures, Over: l.Over, Dropped: t.dropped.Load(),
	}
}
