package inflight

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/recording"
)

// A Discipline is the order in which a queue is served, and its rule for
// waiters that have waited too long.
type Discipline string

const (
	// FIFO is first in, first out.
	FIFO Discipline = "fifo"
	// CoDel is FIFO with the controlled delay of RFC 8289: when requests have
	// waited for Target or longer during a whole Interval, it rejects the
	// oldest ones, at a rising rate, until the wait is below Target again.
	CoDel Discipline = "codel"
	// AdaptiveLIFO is FIFO until the queue does not keep up: requests have
	// been waiting for an Interval, and the wait takes half of MaxWait. Then
	// the newest request goes first and the others are rejected after Target,
	// until the queue is empty. Unless tenants wait, so are the oldest above 1.5
	// times the square root of the limit, at least two: more are of no use then.
	AdaptiveLIFO Discipline = "adaptive_lifo"
	// CoDel2012 is CoDel with the memory of the paper of 2012. When overload
	// returns within 16 Intervals, rejections resume at nearly the rate at
	// which they ended. Under lasting overload waits are about a fifth shorter
	// than with CoDel (docs/codel.md).
	CoDel2012 Discipline = "codel_2012"
)

// Defaults of Config.
const (
	DefaultQueue      = 1000
	DefaultMaxWait    = 500 * time.Millisecond
	DefaultDiscipline = AdaptiveLIFO
	DefaultTarget     = 50 * time.Millisecond // of DefaultDiscipline
	DefaultInterval   = time.Second           // of DefaultDiscipline
	DefaultFairQueues = 256
)

// MaxFairQueues is the largest Config.FairQueues.
const MaxFairQueues = 4096

var _ [0]struct{} = [MaxFairQueues - gate.MaxQueues]struct{}{} // they are equal

// Config configures a Limiter. With the zero value, the limit finds itself,
// and up to a thousand requests wait for up to half a second: higher
// priorities first, equal ones in order of arrival. When the queue does not
// keep up, the newest request goes first, because its caller is still there
// when it is done. Tenants share the limit fairly.
//
// The Limiter learns how long callers wait, from those whose context is
// cancelled. A request without a deadline is rejected as TooLate if the usual
// work would end after nearly all such callers have left.
//
// The rules apply in this order: a partition below its guarantee goes first;
// then the higher priority; then, among routes of one priority (weir.Class),
// those with work that takes less than a quarter of the mean; then, among tenants,
// the tenant that has had the least; and among the requests of one tenant the
// Discipline decides. When the queue is full, a request that goes before the
// last one by these rules takes its place, and the last one is rejected as
// QueueFull.
type Config struct {
	// Algorithm sets the limit. The Limiter owns it from then on. If nil,
	// limit.NewAuto. limit.NewSlowStart makes the limit begin low after an idle
	// time.
	Algorithm limit.Algorithm
	// Queue is the largest number of waiting requests. If zero, DefaultQueue;
	// if negative, no request waits.
	Queue int
	// Depth is the largest number of waiting requests per unit of the limit;
	// at least one request may wait. With a Depth of 3, a wait is about three
	// times as long as the work. If zero, only Queue bounds the queue.
	Depth float64
	// MinWait is a queueing delay that Depth never forbids: the queue may
	// always hold what can be served within MinWait, so that a burst of short
	// work is not rejected. Until the limiter knows how long work takes, Depth
	// bounds nothing. If zero, Depth alone counts.
	MinWait time.Duration
	// MaxWait is the longest time in the queue. If zero, DefaultMaxWait; if
	// negative, only the context and the Discipline bound the wait.
	MaxWait time.Duration

	// Discipline is the order of the queue. If empty, DefaultDiscipline.
	Discipline Discipline
	// Target is the wait that CoDel and AdaptiveLIFO accept in a queue that
	// does not drain. If zero, 5 ms or, with DefaultDiscipline, DefaultTarget.
	Target time.Duration
	// Interval is how long a queue must last until they act. It should be
	// longer than most of the work takes. If zero, 100 ms or, with
	// DefaultDiscipline, DefaultInterval.
	Interval time.Duration

	// WaitOnly says that callers wait for the permit alone, as for a lock or a lease,
	// and not for the end of the work. The deadlines of contexts then bound the wait
	// only, and how long callers wait is not learnt: no request is TooLate.
	WaitOnly bool

	// FairQueues is the number of queues, per priority, over which the tenants of
	// waiting requests (weir.Class) are spread, so that they share the limit fairly:
	// several times the number of tenants that wait at a time, at most
	// MaxFairQueues. If zero, DefaultFairQueues, from the first tenant on; if one,
	// tenants do not matter. The Discipline holds within the queue of a tenant: where
	// very many tenants wait, one request each, it does not act, and waits are longer.
	FairQueues int
	// Weights are the shares of single tenants. Every other tenant has 1.
	Weights map[string]int
	// Aging is the time in which a waiting request rises by one priority. If
	// zero, it does not rise.
	Aging time.Duration
	// Partitions are guaranteed shares of the limit by name (weir.Class): each from 0 to 1, at most 1 together, rounded up
	// to whole units. Other requests may use what a partition leaves unused;
	// the partition goes first when they finish.
	Partitions map[string]float64

	// Trace, if not nil, receives every change of the limit. It is called by
	// the goroutine that caused the change, or by that of a timer, outside the
	// Limiter's lock. It must be safe for concurrent use; events may arrive out
	// of order. It must not panic: in the goroutine of a timer, that ends the process.
	Trace func(Event)
	// Observe, if not nil, receives every decision of Acquire and TryAcquire:
	// the caller's context, the units, the time in the queue, and the error,
	// nil if the request was admitted. The function that it returns, if not
	// nil, receives the outcome when the permit is released. Both are called
	// outside the lock, by the goroutine of the caller. An admission then takes
	// the Limiter's mutex, and allocates twice; nil costs nothing.
	Observe func(ctx context.Context, n int, waited time.Duration, err error) (released func(weir.Outcome))

	// Recorder, if not nil, receives a record of each request of Acquire and
	// TryAcquire. A request that is admitted is added when its permit is released. The
	// class of a record is the Route of weir.Class. Several Limiters may share a
	// Recorder; Inflight counts the units of one Limiter. An admission then reads the
	// clock twice more.
	Recorder *recording.Recorder
}

// rules returns the rules of the queue, or an error that names the first field with a bad
// value. Partitions have the numbers of their names.
func (c Config) rules(names []string) (gate.Config, error) {
	g := gate.Config{
		Queue: cmp.Or(c.Queue, DefaultQueue), Depth: c.Depth, MinWait: c.MinWait, MaxWait: cmp.Or(c.MaxWait, DefaultMaxWait),
		Discipline: gate.Discipline(cmp.Or(c.Discipline, DefaultDiscipline)), Target: c.Target, Interval: c.Interval,
		FairQueues: c.FairQueues, Aging: c.Aging, WaitOnly: c.WaitOnly,
	}
	if c.Discipline == "" {
		g.Target, g.Interval = cmp.Or(c.Target, DefaultTarget), cmp.Or(c.Interval, DefaultInterval)
	}
	for tenant, weight := range c.Weights {
		if weight < 1 {
			return g, fmt.Errorf("inflight: Weights[%q] = %d: must be >= 1", tenant, weight)
		}
	}
	for _, name := range names {
		share := c.Partitions[name]
		switch {
		case name == "":
			return g, fmt.Errorf("inflight: Partitions[%q] = %v: must have a name", name, share)
		case !(share >= 0 && share <= 1):
			return g, fmt.Errorf("inflight: Partitions[%q] = %v: must be between 0 and 1", name, share)
		}
		g.Partitions = append(g.Partitions, share)
	}
	if err := g.Validate(); err != nil {
		return g, fmt.Errorf("inflight: %w", err)
	}
	return g, nil
}

// An Event is a change of the limit. State is the state after it. Sample is the work that
// caused it; if the limit was set, or changed with time, only its End is valid. Sample.End
// is the time of the event since New. Evidence holds the algorithm's measurements by name,
// times in seconds, if it is a limit.Controller.
type Event struct {
	Was   int // the limit before, in units
	Cause limit.Cause
	State
	limit.Sample
	Evidence map[string]float64
}
