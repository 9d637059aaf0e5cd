package gate

import (
	"fmt"
	"slices"
	"time"
)

// Config bounds and orders the queue, as inflight.Config says. With the zero Config no
// request waits. With a Queue, the order is first in, first out within each priority.
type Config struct {
	Queue      int           // waiters (not units) at most. Zero or less: none
	Depth      float64       // waiters for each unit of the limit at most, or one. Zero: only Queue counts
	MinWait    time.Duration // a queueing delay that Depth never forbids, once the time of the work is known. Zero: none
	MaxWait    time.Duration // the longest sojourn. Zero or less: unbounded
	Discipline Discipline    // within a queue. If empty, FIFO
	Target     time.Duration // of CoDel and AdaptiveLIFO. If zero, codel.DefaultTarget
	Interval   time.Duration // of both. If zero, codel.DefaultInterval
	Aging      time.Duration // a waiter rises by one priority per Aging waited. Zero: never
	WaitOnly   bool          // callers wait for the admission, not for the end of the work

	// FairQueues is the number of queues of each priority, over which tenants are spread.
	// One or less: no fairness. A hash deals every tenant a hand of queues (shuffle
	// sharding), and it waits in one: that in which it waits already, else the shortest.
	// So two tenants share a queue only if the one finds its whole hand taken.
	FairQueues int

	Partitions []float64 // guaranteed to partitions 1, 2, ...: shares of the limit, each >= 0, together <= 1
}

// MaxQueues bounds Config.FairQueues.
const MaxQueues = 4096

// A Discipline orders one queue.
type Discipline string

const (
	// FIFO is first in, first out.
	FIFO Discipline = "fifo"
	// CoDel is FIFO, but keeps a standing queue short (internal/codel): a waiter that it
	// drops is Overdue.
	CoDel Discipline = "codel"
	// CoDel2012 is CoDel with codel.Config.KeepRate.
	CoDel2012 Discipline = "codel_2012"
	// AdaptiveLIFO is FIFO until a surge (Facebook's "Fail at Scale", ACM Queue 2015). A surge
	// begins when requests have waited for all of the last Interval and the queue does not
	// keep up: the oldest has waited for half of MaxWait or for an Interval, the queue is
	// full, waiters cancel, or work is late that has waited for longer than it took. In a
	// surge the newest goes first, and a waiter is Overdue after Target, except for the last. If
	// there is one queue, it is Overdue as soon as half more than the square root of the limit,
	// and at least two, wait behind it.
	// Trials of FIFO interrupt it (codel.Surge). It ends when the queue is empty and no
	// waiter became Overdue in the last Interval.
	AdaptiveLIFO Discipline = "adaptive_lifo"
)

// Validate returns an error if d is unknown.
func (d Discipline) Validate() error {
	all := []Discipline{FIFO, CoDel, CoDel2012, AdaptiveLIFO}
	if d != "" && !slices.Contains(all, d) {
		return fmt.Errorf("Discipline = %q: must be one of %q", d, all)
	}
	return nil
}

func (d Discipline) codel() bool { return d == CoDel || d == CoDel2012 }

// Validate returns an error that names the first field with a bad value.
func (c Config) Validate() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"MinWait", c.MinWait}, {"Target", c.Target}, {"Interval", c.Interval}, {"Aging", c.Aging}} {
		if d.value < 0 {
			return invalid(d.field, d.value, ">= 0")
		}
	}
	switch {
	case !(c.Depth >= 0):
		return invalid("Depth", c.Depth, ">= 0")
	case c.FairQueues < 0 || c.FairQueues > MaxQueues:
		return invalid("FairQueues", c.FairQueues, fmt.Sprintf("between 0 and %d", MaxQueues))
	}
	sum := 0.0
	for i, share := range c.Partitions {
		if !(share >= 0 && share <= 1) {
			return invalid(fmt.Sprintf("Partitions[%d]", i), share, "between 0 and 1")
		}
		sum += share
	}
	if sum > 1+1e-9 {
		return invalid("the sum of Partitions", sum, "at most 1")
	}
	return c.Discipline.Validate()
}

func invalid(field string, value any, must string) error {
	return fmt.Errorf("%s = %v: must be %s", field, value, must)
}
