package inflight

import "time"

// Queue returns the bounds of the queue that are in force.
func (l *Limiter) Queue() (queue int, maxWait time.Duration) {
	l.lock()
	defer l.unlock()
	c := l.gate.Config()
	return c.Queue, c.MaxWait
}

// Waiting returns the number of waiting requests, and does not allocate.
func (l *Limiter) Waiting() int {
	l.lock()
	defer l.unlock()
	return l.gate.Waiting()
}

// Evicted returns how many waiting requests were rejected in favour of another.
func (l *Limiter) Evicted() uint64 {
	l.lock()
	defer l.unlock()
	return l.gate.Stats().Evicted
}

// Route returns the number of a route.
func (l *Limiter) Route(name string) int { return l.route(name) }
