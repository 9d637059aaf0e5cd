package inflight

import "time"

// Stats holds the state of a Limiter and its counts since New. Every request is
// in exactly one of Admitted, OverLimit, QueueFull, Overdue, TooLate, Evicted,
// Cancelled, Closed and Waiting. Every admitted request that has left is in exactly
// one of Success, Dropped and Ignored.
type Stats struct {
	Limit    int // units that may be in flight
	Inflight int // units in flight, the held ones included
	Held     int // units of abandoned work, which may still be going on
	Waiting  int // requests in the queue

	Admitted  uint64 // on arrival or after a wait
	OverLimit uint64 // refused: no room and no queue, or more units than the limit
	QueueFull uint64 // refused: the queue was full
	Overdue   uint64 // refused after MaxWait in the queue, or by CoDel
	TooLate   uint64 // refused: the work could not be done by its deadline
	Evicted   uint64 // refused while in the queue, in favour of a request with a better claim
	Cancelled uint64 // the context ended while the request was in the queue
	Closed    uint64 // refused: the Limiter was closed

	Waited time.Duration // the sum of the admitted requests' times in the queue

	Success, Dropped, Ignored uint64 // by outcome of the work
	Abandoned                 uint64 // the part of these that was abandoned: the work may have gone on
}

// Stats returns the state and the counts. They are consistent with each other.
func (l *Limiter) Stats() Stats {
	l.lock()
	defer l.unlock()
	s := l.gate.Stats()
	s.OverLimit += l.credit.overLimit.Load()
	s.QueueFull += l.credit.queueFull.Load()
	return Stats(s)
}
