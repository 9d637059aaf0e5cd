// Package tally counts what becomes of requests: of the ones of a class, and of all.
package tally

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/metric"
)

// The reasons for which a request is refused, besides each weir.Reason.
const (
	TooLarge = "too_large" // its body
	Pressure = "pressure"  // work waits for the processor
)

// Counts holds the counts of a class, or of all classes.
type Counts struct {
	all         *Counts       // of all classes; nil of these
	requests    atomic.Uint64 // only of a class
	denied      atomic.Uint64 // by rules; only of a class
	admitted    atomic.Uint64
	waited      atomic.Int64                                // nanoseconds, of those
	waits       [len(inflight.WaitBounds) + 1]atomic.Uint64 // of those, as in inflight.Stats
	cancelled   atomic.Uint64                               // the client left the queue
	refused     refusals
	outcomes    [weir.Dropped + 1]atomic.Uint64
	wasted      atomic.Uint64     // of the outcomes
	wouldRefuse refusals          // let through in shadow mode
	exemplars   *metric.Exemplars // of waits
}

// refusals are the requests that were refused, but not by rules.
type refusals struct {
	byLimit  [reasons]atomic.Uint64
	tooLarge atomic.Uint64
	spared   atomic.Uint64 // because of the pressure
}

// reasons is the number of Reasons; index 0 is for unknown ones.
const reasons = weir.Recovering + 1

// New returns the counts of a class, which add to those of all classes, or the latter if all is nil.
func New(all *Counts) *Counts {
	return &Counts{all: all, exemplars: metric.NewExemplars(inflight.WaitBounds[:])}
}

// CountRequest counts a request that has come.
func (c *Counts) CountRequest() { c.requests.Add(1) }

// CountDenied counts a request that the rules have denied.
func (c *Counts) CountDenied() { c.denied.Add(1) }

// CountAdmitted counts a request that has got its units, after a wait. The ID of its trace is empty if it is not sampled.
func (c *Counts) CountAdmitted(waited time.Duration, traceID string) {
	i, _ := slices.BinarySearch(inflight.WaitBounds[:], waited)
	for ; c != nil; c = c.all {
		c.admitted.Add(1)
		c.waited.Add(int64(waited))
		c.waits[i].Add(1)
		c.exemplars.Note(waited, traceID)
	}
}

// CountRejected counts a request that has got no units.
func (c *Counts) CountRejected(err error) {
	r := admission.Rejection(err)
	for ; c != nil; c = c.all {
		if r == nil {
			c.cancelled.Add(1)
		} else if r.Reason < reasons {
			c.refused.byLimit[r.Reason].Add(1)
		}
	}
}

// CountTooLarge counts a request that was refused because of the size of its body.
func (c *Counts) CountTooLarge() {
	for ; c != nil; c = c.all {
		c.refused.tooLarge.Add(1)
	}
}

// CountSpared counts a request that was refused because of the pressure.
func (c *Counts) CountSpared() {
	for ; c != nil; c = c.all {
		c.refused.spared.Add(1)
	}
}

// CountOutcome counts the outcome of an admitted request. Wasted means that its client does not get the answer.
func (c *Counts) CountOutcome(o weir.Outcome, wasted bool) {
	for ; c != nil; c = c.all {
		c.outcomes[outcome.Plain(o)].Add(1)
		if wasted {
			c.wasted.Add(1)
		}
	}
}

// CountWouldReject counts a request that a limit would have rejected, or let wait, but for shadow mode.
func (c *Counts) CountWouldReject() { c.wouldRefuse.byLimit[weir.OverLimit].Add(1) }

// CountWouldBeTooLarge counts a request that was let through in shadow mode although its body is too large.
func (c *Counts) CountWouldBeTooLarge() { c.wouldRefuse.tooLarge.Add(1) }

// CountWouldSpare counts a request that was let through in shadow mode in spite of the pressure.
func (c *Counts) CountWouldSpare() { c.wouldRefuse.spared.Add(1) }

// Exemplars returns the exemplars of waits.
func (c *Counts) Exemplars() *metric.Exemplars { return c.exemplars }

// Stats are the counts at an instant.
type Stats struct {
	inflight.Stats        // without the state
	Requests       uint64 // only of a class
	Denied         uint64 // only of a class
	// Refused and WouldRefuse have the counts above zero by reason.
	Refused, WouldRefuse map[string]uint64
}

// Stats returns the counts.
func (c *Counts) Stats() Stats {
	s := Stats{
		Stats: inflight.Stats{
			Admitted: c.admitted.Load(), Cancelled: c.cancelled.Load(), Waited: time.Duration(c.waited.Load()),
			Wasted: c.wasted.Load(), Rejected: map[weir.Reason]uint64{}, Outcomes: map[weir.Outcome]uint64{},
		},
		Requests: c.requests.Load(), Denied: c.denied.Load(), Refused: c.refused.byReason(), WouldRefuse: c.wouldRefuse.byReason(),
	}
	for i := range c.waits {
		s.Waits[i] = c.waits[i].Load()
	}
	for _, why := range []weir.Reason{weir.OverLimit, weir.QueueFull, weir.Overdue, weir.TooLate, weir.Closed} {
		s.Rejected[why] = c.refused.byLimit[why].Load()
	}
	for o := range c.outcomes {
		s.Outcomes[weir.Outcome(o)] = c.outcomes[o].Load()
	}
	return s
}

// byReason returns the counts above zero.
func (r *refusals) byReason() map[string]uint64 {
	all := map[string]uint64{}
	put := func(why string, n uint64) {
		if n > 0 {
			all[why] = n
		}
	}
	for why := range r.byLimit {
		put(weir.Reason(why).String(), r.byLimit[why].Load())
	}
	put(TooLarge, r.tooLarge.Load())
	put(Pressure, r.spared.Load())
	return all
}
