package inflight

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
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

	Outcomes  map[weir.Outcome]uint64 // of the work that has left; all are present
	Abandoned uint64                  // the part of these that was abandoned: the work may have gone on
}

// Stats returns the state and the counts. They are consistent with each other.
func (l *Limiter) Stats() Stats {
	l.lock()
	s := l.gate.Stats()
	s.OverLimit += l.credit.overLimit.Load()
	s.QueueFull += l.credit.queueFull.Load()
	l.unlock()
	return Stats{
		State: stateOf(s), Admitted: s.Admitted, Cancelled: s.Cancelled,
		Rejected: map[weir.Reason]uint64{
			weir.OverLimit: s.OverLimit, weir.QueueFull: s.QueueFull + s.Evicted, weir.Overdue: s.Overdue,
			weir.TooLate: s.TooLate, weir.Closed: s.Closed,
		},
		Waited:    s.Waited,
		Outcomes:  map[weir.Outcome]uint64{weir.Success: s.Success, weir.Dropped: s.Dropped, weir.Ignored: s.Ignored},
		Abandoned: s.Abandoned,
	}
}
