package client

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a circuit.
const (
	tripAfter  = 3 // failures in a row
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// errAway is the error of a request that is not sent because the server is away.
var errAway = errors.New("client: the server is away")

// A circuit tracks whether the server answers. While it does not, the Client sends
// only a probe from time to time, triggered by a call that does not wait for it.
type circuit struct {
	open atomic.Bool // the server is away; written with mu held

	mu       sync.Mutex // guards what follows
	failures int        // in a row
	err      error      // the last one
	backoff  time.Duration
	next     time.Time // when to probe
	probing  bool
	probes   int  // since the server has been away
	told     bool // OnAway has been told that the server is away
	telling  bool
}

// note counts the result of an exchange with the server; err is nil if the server
// answered in any way. It reports whether the caller must call tell.
func (k *circuit) note(now time.Time, err error) (tell bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.failures, k.backoff = 0, 0
		k.open.Store(false)
	} else {
		k.failures++
		k.err = err
		if k.failures >= tripAfter && !k.open.Load() {
			k.open.Store(true)
			k.probes = 0
			k.wait(now)
		}
	}
	if k.telling || k.told == k.open.Load() {
		return false
	}
	k.telling = true
	return true
}

// wait schedules the next probe, at random so that clients do not probe together.
func (k *circuit) wait(now time.Time) {
	k.backoff = min(max(2*k.backoff, minBackoff), maxBackoff)
	k.next = now.Add(k.backoff/2 + rand.N(k.backoff/2))
}

// probe returns the number of the probe that is due, 0 if none is. The caller must
// send it, and call probed.
func (k *circuit) probe(now time.Time) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() || k.probing || now.Before(k.next) {
		return 0
	}
	k.probing = true
	k.probes++
	return k.probes
}

// probed ends a probe; note has been called before.
func (k *circuit) probed(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.probing = false
	if k.open.Load() {
		k.wait(now)
	}
}

// retryAfter returns the time until the next probe.
func (k *circuit) retryAfter(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(k.next.Sub(now), minBackoff/2)
}

// tell calls f with each change of the state until f knows the current one.
func (k *circuit) tell(f func(error)) {
	for {
		k.mu.Lock()
		away := k.open.Load()
		if k.told == away {
			k.telling = false
			k.mu.Unlock()
			return
		}
		k.told = away
		err := k.err
		k.mu.Unlock()
		if !away {
			err = nil
		}
		f(err)
	}
}
