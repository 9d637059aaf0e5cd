// Package circuit tracks whether a server answers, so that a client does not wait
// for a server that is away, and asks only from time to time whether it is back.
package circuit

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a Breaker.
const (
	tripAfter  = 3 // failures in a row
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// A Breaker is open while the server is away. Then the client sends only a probe from
// time to time. The zero Breaker is closed. It is safe for concurrent use.
type Breaker struct {
	open atomic.Bool // written with mu held

	mu       sync.Mutex // guards what follows
	failures int        // in a row
	err      error      // the last one
	backoff  time.Duration
	next     time.Time // when to probe
	probing  bool
	fresh    bool // no probe has been sent since the Breaker opened
	told     bool // Tell has reported that the Breaker is open
	telling  bool
}

// Open reports whether the server is away.
func (b *Breaker) Open() bool { return b.open.Load() }

// Note counts the result of a request; err is nil if the server answered in any way.
// It reports whether the caller must call Tell.
func (b *Breaker) Note(now time.Time, err error) (tell bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.failures, b.backoff = 0, 0
		b.open.Store(false)
	} else {
		b.failures++
		b.err = err
		if b.failures >= tripAfter && !b.open.Swap(true) {
			b.fresh = true
			b.wait(now)
		}
	}
	if b.telling || b.told == b.open.Load() {
		return false
	}
	b.telling = true
	return true
}

// Tell calls f with the failure each time the Breaker has opened, and with nil when it
// has closed, until f knows the current state.
func (b *Breaker) Tell(f func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.told != b.open.Load() {
		b.told = !b.told
		var err error
		if b.told {
			err = b.err
		}
		b.mu.Unlock()
		f(err)
		b.mu.Lock()
	}
	b.telling = false
}

// wait schedules the next probe, at random so that clients do not probe together.
func (b *Breaker) wait(now time.Time) {
	b.backoff = min(max(2*b.backoff, minBackoff), maxBackoff)
	b.next = now.Add(b.backoff/2 + rand.N(b.backoff/2))
}

// Probe reports whether a probe is due, and whether it is the first since the Breaker
// opened. The caller must send it, Note its result, and call Probed.
func (b *Breaker) Probe(now time.Time) (due, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open.Load() || b.probing || now.Before(b.next) {
		return false, false
	}
	first = b.fresh
	b.probing, b.fresh = true, false
	return true, first
}

// Probed ends a probe.
func (b *Breaker) Probed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if b.open.Load() {
		b.wait(now)
	}
}

// RetryAfter returns the time until the next probe.
func (b *Breaker) RetryAfter(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.next.Sub(now), minBackoff/2)
}
