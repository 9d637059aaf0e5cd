// Package codel holds the law of CoDel, "controlled delay": when to drop a
// waiter so that a queue that stands gets short, while one that only absorbs
// bursts is left alone. It is the law of RFC 8289, to the letter of its
// pseudo-code (section 5), which is also that of Linux; it differs from the
// paper of 2012 in how much of an earlier dropping state it remembers.
//
// The queue is not in here. Its owner asks Law.Drop about each waiter that it takes out,
// until one is let in. CoDel bounds the standing wait, not the longest one, and takes its
// time: a flood that does not slow down when it is refused outruns it. Bound the queue as
// well.
package codel

import (
	"cmp"
	"math"
	"time"
)

// Parameters where Config leaves them open: those of RFC 8289, section 4.
const (
	DefaultTarget   = 5 * time.Millisecond
	DefaultInterval = 100 * time.Millisecond
)

// Config sets up a Law. The zero value is the RFC's.
type Config struct {
	Target   time.Duration // the standing sojourn that is acceptable. If zero, DefaultTarget
	Interval time.Duration // how long it may be longer before the first drop. If zero, DefaultInterval
	// KeepRate selects the memory of the paper of 2012: when overload returns
	// within 16 intervals, drops resume two steps below the rate at which they
	// ended. The RFC resumes with the drops of the last dropping state only.
	KeepRate bool
}

// A Law is the state of one queue under CoDel. Instants are durations since
// any fixed epoch, and none is earlier than the one before. New makes a Law. It is not safe
// for concurrent use.
type Law struct {
	cfg Config

	above      bool          // the sojourn has been at Target or more since firstAbove - Interval
	firstAbove time.Duration // from then on it is ok to drop
	dropping   bool          // the state in which the law drops
	dropNext   time.Duration // in that state, the instant of the next drop; else, of the one that was not needed
	count      int           // drops since the state was entered, and those remembered
	lastCount  int           // count when it was entered
	follows    dequeue       // what the last Drop did, if it said true: the same dequeue goes on
	asked      time.Duration // of the last dequeue
}

// A dequeue, in the RFC, goes on until a waiter is let in. Drop sees it in
// pieces.
type dequeue uint8

const (
	begins     dequeue = iota
	hasEntered         // it dropped one, and so entered the dropping state
	hasDropped         // it dropped one in that state
)

// New returns the law for an empty queue.
func New(cfg Config) Law {
	cfg.Target = cmp.Or(cfg.Target, DefaultTarget)
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	return Law{cfg: cfg}
}

// Drop reports whether the waiter that is taken out of the queue now is to be
// dropped instead of let in. Left is how many wait behind it. The last but one
// and the last are never dropped: the RFC spares a queue of one packet, so
// that the link does not go idle.
func (l *Law) Drop(now, sojourn time.Duration, left int) bool {
	l.asked = now
	ok := l.okToDrop(now, sojourn, left)
	follows := l.follows
	l.follows = begins
	switch {
	case follows == hasEntered:
		return false // the RFC admits the next waiter after the first drop
	case l.dropping && !ok:
		l.dropping = false
		return false
	case follows == hasDropped:
		l.dropNext = l.control(l.dropNext)
	}
	switch {
	case l.dropping && now >= l.dropNext:
		l.count++
		l.follows = hasDropped
		return true
	case !l.dropping && ok:
		l.enter(now)
		l.follows = hasEntered
		return true
	}
	return false
}

// Empty says that no request waits any more.
func (l *Law) Empty() { l.above, l.dropping, l.follows = false, false, begins }

// Deadline returns when to ask Stalled about the head of the queue, which has
// waited since an instant, if nothing is taken out of the queue before. There
// is none if at most one waits behind it.
//
// The RFC's link always goes on to send. A server's work may hang; then
// nothing is taken out, and Drop is never asked.
func (l *Law) Deadline(since time.Duration, left int) (at time.Duration, ok bool) {
	if left <= 1 {
		return 0, false
	}
	at = add(max(l.asked, add(since, l.cfg.Target)), l.cfg.Interval)
	if l.dropping {
		at = max(at, l.dropNext)
	}
	return at, at < math.MaxInt64
}

// Stalled reports whether the head of the queue is to be dropped where it
// stands, because for an Interval its sojourn has been above Target and
// nothing was taken out. While that lasts, the drops follow the same law.
func (l *Law) Stalled(now, sojourn time.Duration, left int) bool {
	if at, ok := l.Deadline(now-sojourn, left); !ok || now < at {
		return false
	}
	if !l.above {
		l.above, l.firstAbove = true, now
	}
	l.follows = begins
	if !l.dropping {
		l.enter(now)
	} else {
		l.count++
		l.dropNext = l.control(l.dropNext)
	}
	return true
}

// okToDrop is the RFC's dodequeue.
func (l *Law) okToDrop(now, sojourn time.Duration, left int) bool {
	if sojourn < l.cfg.Target || left <= 1 {
		l.above = false
		return false
	}
	if !l.above {
		l.above, l.firstAbove = true, add(now, l.cfg.Interval)
		return false
	}
	return now >= l.firstAbove
}

// enter begins the dropping state with the first drop. If the last one ended
// recently, the rate that controlled the queue then is where it starts.
func (l *Law) enter(now time.Duration) {
	l.dropping = true
	resume := l.count - l.lastCount
	if l.cfg.KeepRate {
		resume = l.count - 2
	}
	l.count = 1
	if resume > 1 && (now-l.dropNext)/16 < l.cfg.Interval {
		l.count = resume
	}
	l.dropNext = l.control(now)
	l.lastCount = l.count
}

// control is the control law: the next drop comes Interval/√count after t.
func (l *Law) control(t time.Duration) time.Duration {
	interval := float64(l.cfg.Interval)
	return add(t, time.Duration(min(interval/math.Sqrt(float64(l.count)), 1<<62)))
}

// add does not go beyond the end of the clock.
func add(t, d time.Duration) time.Duration {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}
