package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/codel"
)

// Config bounds and orders the queue. With the zero Config no request waits. With a Queue,
// the order is first in, first out within each priority.
//
// The rules compose: first a partition below its guarantee, then the higher priority, then
// the tenant that has had the least. The Discipline orders the requests of one tenant.
type Config struct {
	Queue      int           // waiters (not units) at most. Zero or less: none
	Depth      float64       // waiters for each unit of the limit at most, or one. Zero or less: only Queue counts
	MinWait    time.Duration // a queueing delay that Depth never forbids, once the time of the work is known. Zero or less: none
	MaxWait    time.Duration // the longest sojourn. Zero or less: unbounded
	Discipline Discipline    // within a queue. If zero, FIFO
	CoDel      codel.Config  // target and interval of CoDel and AdaptiveLIFO. Zeros: codel's defaults
	Fair       Fairness      // between tenants. If zero, there is none
	Aging      time.Duration // a waiter rises by one priority per Aging waited. Zero or less: never

	// Partitions are the shares of the limit that are guaranteed to
	// partitions 1, 2, ...: each >= 0, and all together <= 1. A share is
	// rounded up to whole units. All requests may use what a partition leaves
	// unused; it has it back as soon as that work ends.
	Partitions []float64
}

// A Discipline orders one queue. The zero Discipline is FIFO.
type Discipline uint8

const (
	// FIFO is first in, first out.
	FIFO Discipline = iota + 1
	// CoDel is FIFO, but keeps a standing queue short (internal/codel): a waiter that it
	// drops is Overdue.
	CoDel
	// AdaptiveLIFO is FIFO until a surge. A surge begins when requests have waited for all
	// of the last Interval and the queue does not keep up: the oldest has waited for half of
	// MaxWait or for an Interval, the queue is full, waiters cancel, or work is late that has
	// waited for longer than it took. In a surge the newest goes first, and a waiter is
	// Overdue after Target, except for the last (Facebook's "Fail at Scale", ACM Queue
	// 2015). A surge ends when the queue is empty and no waiter became Overdue in the last
	// Interval.
	//
	// Trials of FIFO interrupt a surge: after 2 Intervals, and after twice as many, up to 32,
	// each time that a trial fails because the queue more than doubles within an Interval.
	// Clients that wait for their answers keep a queue long, but it does not grow: if all
	// can be served within MaxWait, none is refused.
	//
	// Interval should be longer than most of the work takes. While a limit lowers itself for
	// a moment, and for as long again, CoDel and AdaptiveLIFO refuse no waiter, unless there
	// was a queue before.
	AdaptiveLIFO
)

var disciplines = [...]string{"fifo", "fifo", "codel", "adaptive_lifo"}

// UnmarshalText reads what String says.
func (d *Discipline) UnmarshalText(text []byte) error {
	i := slices.Index(disciplines[1:], string(text))
	if i < 0 {
		return fmt.Errorf("discipline = %q: must be one of %q", text, disciplines[1:])
	}
	*d = Discipline(i + 1)
	return nil
}

// String returns the name as configurations spell it.
func (d Discipline) String() string {
	if int(d) < len(disciplines) {
		return disciplines[d]
	}
	return "unknown"
}

// Fairness shares the limit between the tenants that wait: by weighted fair
// queueing in virtual time, in units. Each priority has its own Queues. A hash
// deals every tenant a hand of them (shuffle sharding), and it waits in one:
// that in which it waits already, else the shortest. So two tenants share a
// queue only if the one finds its whole hand taken.
type Fairness struct {
	Queues int    // of each priority; more than there are tenants at a time. One or less: no fairness
	Hand   int    // queues to choose from, at most MaxHand. If zero, DefaultHand
	Seed   uint64 // of the hash that deals
}

// The size of a hand of queues.
const (
	DefaultHand = 6
	MaxHand     = 16
)

// MaxQueues bounds Fairness.Queues.
const MaxQueues = 4096

// Validate returns what is wrong with c, if anything is.
func (c Config) Validate() error {
	if c.Discipline > AdaptiveLIFO {
		return fmt.Errorf("gate: Discipline = %d: must be one of %q", c.Discipline, disciplines[1:])
	}
	if err := c.CoDel.Validate(); err != nil {
		return err
	}
	if c.Fair.Queues < 0 || c.Fair.Queues > MaxQueues {
		return fmt.Errorf("gate: Fair.Queues = %d: must be between 0 and %d", c.Fair.Queues, MaxQueues)
	}
	if c.Fair.Hand < 0 || c.Fair.Hand > MaxHand {
		return fmt.Errorf("gate: Fair.Hand = %d: must be between 0 and %d", c.Fair.Hand, MaxHand)
	}
	sum := 0.0
	for i, share := range c.Partitions {
		if !(share >= 0 && share <= 1) {
			return fmt.Errorf("gate: Partitions[%d] = %v: must be between 0 and 1", i, share)
		}
		sum += share
	}
	if sum > 1+1e-9 {
		return fmt.Errorf("gate: Partitions = %v: must be at most 1 together", c.Partitions)
	}
	return nil
}
