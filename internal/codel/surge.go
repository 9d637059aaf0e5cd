package codel

import "time"

// A Surge is the state of adaptive LIFO in one queue. During a surge, the newest waiter
// is served first, and waiters are overdue after Target.
//
// Clients that retry at once keep the queue long for ever, although all of them could
// be served, in order and in time. So a surge is interrupted by trials: the queue is
// first in, first out, and no request is refused. If the load is too high, the queue
// grows, and the trial fails. If refusals have caused the load, the queue does not
// grow.
type Surge struct {
	phase phase
	since time.Duration // the phase began
	until time.Duration // the next trial begins, if surging
	most  int           // waiters in a trial that does not fail
}

type phase uint8

const (
	calm phase = iota
	surging
	onTrial
)

// A trial begins shortSurge Intervals after a surge has begun. After each trial
// that fails, the next one begins twice as long after it, up to longSurge
// Intervals. A trial fails if the queue grows to more than twice its length and
// trialSome.
const (
	shortSurge = 2
	longSurge  = 32
	trialSome  = 2
)

// A Shortfall counts requests that a queue in order did not serve in time, and
// forgets one for each servedFor that it did: it is above fewUnserved if that is so
// for more than a sixteenth of them. A queue keeps up if it is not.
type Shortfall float32

const (
	fewUnserved  = 4
	manyUnserved = 8 // it counts no further
	servedFor    = 16
)

// Unserved counts a request that was not served in time, Served one that was.
func (s *Shortfall) Unserved() { *s = min(*s+1, manyUnserved) }
func (s *Shortfall) Served()   { *s = max(*s-1.0/servedFor, 0) }

// Behind reports whether the queue does not keep up.
func (s *Shortfall) Behind() bool { return *s > fewUnserved }

// Begin begins a surge, or the next part of it after a trial that has failed.
func (s *Surge) Begin(now, interval time.Duration) {
	length := shortSurge * interval
	if last := s.until - s.since; s.phase == onTrial && now-s.until < last {
		length = min(2*last, longSurge*interval)
	}
	*s = Surge{phase: surging, since: now, until: add(now, length)}
}

// Rages reports whether the newest of n waiters goes first. It begins a trial if
// it is time.
func (s *Surge) Rages(now time.Duration, n int) bool {
	if s.phase == surging && now >= s.until {
		s.phase, s.most = onTrial, 2*n+trialSome
	}
	return s.phase == surging
}

// Failed reports whether n waiters are too many in a trial.
func (s *Surge) Failed(now time.Duration, n int, interval time.Duration) bool {
	return s.phase == onTrial && n > s.most && now-s.until < interval
}

// Active reports whether there is a surge that no trial interrupts.
func (s *Surge) Active() bool { return s.phase == surging }

// OnTrial reports whether a trial goes on, or was the last phase.
func (s *Surge) OnTrial() bool { return s.phase == onTrial }
