package inflight

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// State holds what a Limiter admits and has at one instant.
type State struct {
	Limit    int // units that may be in flight
	Inflight int // units in flight, the held ones included
	Held     int // units of abandoned work, which may still be going on
	Waiting  int // requests in the queue
}

// State returns the state. Unlike Stats it does not allocate.
func (l *Limiter) State() State {
	l.lock()
	defer l.unlock()
	return stateOf(l.gate.Stats())
}

func stateOf(s gate.Stats) State { return State{s.Limit, s.Inflight, s.Held, s.Waiting} }

// Stats holds the state of a Limiter and its counts since New. Every request is
// in exactly one of Admitted, one reason of Rejected, Cancelled and Waiting, except
// that a request is not counted if its context has ended before Acquire. Every admitted
// request that has left is in exactly one of Outcomes. The maps belong to the caller.
type Stats struct {
	State

	Admitted  uint64 // on arrival or after a wait
	Cancelled uint64 // the context ended while the request was in the queue

	// Rejected counts rejections by the Reason that the caller got: OverLimit,
	// QueueFull, Overdue, TooLate and Closed. All five are present.
	Rejected map[weir.Reason]uint64

	Waited time.Duration // the sum of the admitted requests' times in the queue
	// Waits counts the admitted requests by their time in the queue: Waits[i] are longer
	// than WaitBounds[i-1] and at most WaitBounds[i]. Requests that did not wait are in
	// Waits[0].
	Waits [14]uint64

	Outcomes  map[weir.Outcome]uint64 // of the work that has left; all are present
	Abandoned uint64                  // the part of these that was abandoned: the work may have gone on
	// Wasted is the part of Outcomes that ended, or was abandoned, after its caller had left,
	// or its deadline.
	Wasted uint64

	// Changes counts the changes of the limit by cause. Causes that have not occurred are
	// not present.
	Changes map[limit.Cause]uint64
	// Patience is how long callers wait before they leave, as the Limiter has learnt it:
	// the age of a request at which 13 of 14 have left. If the callers of a priority or a
	// partition leave earlier than others, it is theirs. It is zero if too few have left.
	Patience time.Duration
}

// WaitBounds are the upper bounds, inclusive, of the elements of Stats.Waits; the last
// element has none.
var WaitBounds = [13]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// Stats returns the state and the counts. They are consistent with each other.
func (l *Limiter) Stats() Stats {
	l.lock()
	s := l.gate.Stats()
	s.OverLimit += l.credit.overLimit.Load()
	s.QueueFull += l.credit.queueFull.Load()
	patience, counts, waits := l.gate.Patience(), l.gate.Changes(), l.waits
	l.unlock()
	waits[0] = s.Admitted
	for _, n := range waits[1:] {
		waits[0] -= n
	}
	changes := map[limit.Cause]uint64{}
	for cause, n := range counts {
		if n > 0 {
			changes[limit.Cause(cause)] = n
		}
	}
	return Stats{
		State: stateOf(s), Admitted: s.Admitted, Cancelled: s.Cancelled,
		Rejected: map[weir.Reason]uint64{
			weir.OverLimit: s.OverLimit, weir.QueueFull: s.QueueFull + s.Evicted, weir.Overdue: s.Overdue,
			weir.TooLate: s.TooLate, weir.Closed: s.Closed,
		},
		Waited:    s.Waited,
		Waits:     waits,
		Outcomes:  map[weir.Outcome]uint64{weir.Success: s.Success, weir.Dropped: s.Dropped, weir.Ignored: s.Ignored},
		Abandoned: s.Abandoned,
		Wasted:    s.Wasted,
		Changes:   changes,
		Patience:  patience,
	}
}
