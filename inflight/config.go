package inflight

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/codel"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// The queue where Config leaves it open.
const (
	DefaultQueue      = 1000
	DefaultMaxWait    = 500 * time.Millisecond
	DefaultDiscipline = gate.AdaptiveLIFO
	DefaultTarget     = 50 * time.Millisecond // of DefaultDiscipline
	DefaultInterval   = time.Second           // of DefaultDiscipline
)

// Config sets up a Limiter. The zero value finds the limit by itself, and lets
// a thousand requests wait for half a second: higher priorities first, and else
// in order, so that a burst is worked off. If there has been a queue for a
// second, and a wait takes half of what it may, there is a surge. Then the newest
// request goes first, as its caller is still there when it is done, and the others
// are refused soon. A queue that is long, but does not grow, is no surge: clients
// that wait for their answers before they call again are all served.
//
// The rules compose. First comes a partition below its guarantee; then the
// higher priority; then, between tenants of one priority, whoever has had the
// least; and among the requests of one tenant the Discipline decides. In a
// full queue the least of these makes place for a better one, and is told
// QueueFull.
type Config struct {
	// Algorithm sets the limit; the Limiter owns it from then on. If nil,
	// limit.Auto.
	Algorithm limit.Algorithm
	// Queue bounds the number of waiters. If zero, DefaultQueue; if negative,
	// nobody waits.
	Queue int
	// Depth bounds the number of waiters, too: as many for each unit of the
	// limit, and one at least. With a Depth of 3, a wait is about three times
	// as long as the work, however long that takes, and whoever would wait
	// longer is refused at once. If zero, only Queue counts.
	Depth float64
	// Brief is a wait that Depth always grants: where as many as would be done in
	// that time are more than Depth lets wait, so many may. For work that takes
	// little time, a burst is then no reason to refuse. As long as nothing is known
	// of how fast the work goes, Depth bounds nothing. If zero, there is no such
	// wait.
	Brief time.Duration
	// MaxWait bounds the time in the queue. If zero, DefaultMaxWait; if
	// negative, a waiter waits as long as its context and Discipline allow.
	MaxWait time.Duration

	// Discipline says who goes first among equals, and who has waited too
	// long. If zero, DefaultDiscipline.
	Discipline gate.Discipline
	// Target is the wait that gate.CoDel and gate.AdaptiveLIFO find acceptable
	// in a queue that stands. If zero, codel.DefaultTarget or, under the
	// DefaultDiscipline, DefaultTarget.
	Target time.Duration
	// Interval is for how long a queue must stand until they act; it should be
	// longer than most of the work takes. If zero, codel.DefaultInterval or,
	// under the DefaultDiscipline, DefaultInterval.
	Interval time.Duration

	// FairQueues makes the tenants that wait (weir.WithTenant) share the limit
	// fairly. It is the number of queues, for each priority, over which they
	// are spread: several times the number of tenants that wait at a time, at
	// most gate.MaxQueues. If zero or one, tenants do not matter.
	FairQueues int
	// Weights are the shares of tenants beside the others', which have 1.
	Weights map[string]int
	// Aging is the time in which a waiter rises by one priority, so that none
	// starves. If zero, it does not rise.
	Aging time.Duration
	// Partitions guarantee shares of the limit (weir.WithPartition). What one
	// leaves unused, everybody may use; it comes first when that is freed.
	Partitions []Partition

	// Trace, if not nil, is told of every change of the limit, by the
	// goroutine that caused it, outside the Limiter's lock: it must be safe
	// for concurrent use, and events may overtake each other.
	Trace func(Event)
}

// A Partition is a guaranteed share of the limit.
type Partition struct {
	Name  string
	Share float64 // of the limit, >= 0 and together at most 1; rounded up to whole units
}

// Validate returns what is wrong with c, if anything is.
func (c Config) Validate() error {
	switch {
	case c.Discipline > gate.AdaptiveLIFO:
		return fmt.Errorf("inflight: Discipline = %d: must be gate.FIFO, CoDel or AdaptiveLIFO", c.Discipline)
	case c.Brief < 0:
		return fmt.Errorf("inflight: Brief = %v: must be >= 0", c.Brief)
	case !(c.Depth >= 0):
		return fmt.Errorf("inflight: Depth = %v: must be >= 0", c.Depth)
	case c.Target < 0:
		return fmt.Errorf("inflight: Target = %v: must be >= 0", c.Target)
	case c.Interval < 0:
		return fmt.Errorf("inflight: Interval = %v: must be >= 0", c.Interval)
	case c.FairQueues < 0 || c.FairQueues > gate.MaxQueues:
		return fmt.Errorf("inflight: FairQueues = %d: must be between 0 and %d", c.FairQueues, gate.MaxQueues)
	case c.Aging < 0:
		return fmt.Errorf("inflight: Aging = %v: must be >= 0", c.Aging)
	}
	for tenant, weight := range c.Weights {
		if weight < 1 {
			return fmt.Errorf("inflight: Weights[%q] = %d: must be >= 1", tenant, weight)
		}
	}
	return c.validatePartitions()
}

func (c Config) validatePartitions() error {
	names := map[string]bool{}
	sum := 0.0
	for i, p := range c.Partitions {
		switch {
		case p.Name == "" || names[p.Name]:
			return fmt.Errorf("inflight: Partitions[%d].Name = %q: must be a name of its own", i, p.Name)
		case !(p.Share >= 0 && p.Share <= 1):
			return fmt.Errorf("inflight: Partitions[%d].Share = %v: must be between 0 and 1", i, p.Share)
		}
		names[p.Name] = true
		sum += p.Share
	}
	if sum > 1+1e-9 {
		return fmt.Errorf("inflight: Partitions have shares of %v together: must be at most 1", sum)
	}
	return nil
}

// Gate returns the rules of the queue that c asks for: what New gives the gate.
func (c Config) Gate() gate.Config {
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	if c.MaxWait == 0 {
		c.MaxWait = DefaultMaxWait
	}
	if c.Discipline == 0 {
		c.Discipline = DefaultDiscipline
		c.Target = cmp.Or(c.Target, DefaultTarget)
		c.Interval = cmp.Or(c.Interval, DefaultInterval)
	}
	g := gate.Config{
		Queue: c.Queue, Depth: c.Depth, Brief: c.Brief, MaxWait: c.MaxWait, Discipline: c.Discipline,
		CoDel: codel.Config{Target: c.Target, Interval: c.Interval},
		Fair:  gate.Fairness{Queues: c.FairQueues}, Aging: c.Aging,
	}
	for _, p := range c.Partitions {
		g.Partitions = append(g.Partitions, p.Share)
	}
	return g
}

// An Event is a change of the limit.
type Event struct {
	At         time.Duration // since the Limiter was made
	Was, Limit int           // units, before and after
	Cause      limit.Cause
	Inflight   int            // units in flight after the change
	Waiting    int            // requests in the queue after the change
	Sample     limit.Sample   // the work that caused it; if it was Set, only End
	Evidence   limit.Evidence // what it rests on, if the algorithm is a limit.Explainer
}
