package client

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// What a circuit goes by.
const (
	tripAfter  = 3 // failures in a row
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// errAway is that the server is not asked.
var errAway = errors.New("client: the server is away")

// A circuit says whether the server is there. When it is not, nobody asks it but
// for a probe from time to time, which is sent on the occasion of a request that
// does not wait for it.
type circuit struct {
	open atomic.Bool // the server is away; written under mu

	mu       sync.Mutex // guards what follows
	failures int        // in a row
	err      error      // the last one
	backoff  time.Duration
	next     time.Time // when to probe
	probing  bool
	probes   int  // since the server is away
	told     bool // OnAway knows that the server is away
	telling  bool
}

// note takes in how an exchange with the server ended: err is nil if it answered
// in any way. It reports whether OnAway is to be told, by tell.
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

// wait puts the next probe off, by chance so that clients do not come together.
func (k *circuit) wait(now time.Time) {
	k.backoff = min(max(2*k.backoff, minBackoff), maxBackoff)
	k.next = now.Add(k.backoff/2 + rand.N(k.backoff/2))
}

// probe returns a number above zero if it is time for that probe: then the caller
// has to send it, and to call probed.
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

// probed is the end of a probe; note has been called before.
func (k *circuit) probed(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.probing = false
	if k.open.Load() {
		k.wait(now)
	}
}

// retryAfter returns how long it takes until somebody will ask the server again.
func (k *circuit) retryAfter(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(k.next.Sub(now), minBackoff/2)
}

// tell calls f with the state until it knows the last one.
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
