// Package share decides for a client of a rate limit server while the server is away,
// by the client's share of the limits that the server has told it.
package share

import (
	"iter"
	"math"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/ratelimitfield"
	"github.com/weir-go/weir/keyed"
)

// The rate of a key is due again after askAgain, and the next rate of any key after
// askEvery.
const (
	askAgain = time.Minute
	askEvery = 10 * time.Millisecond
)

// maxKeys bounds the keys of which the limits are kept.
const maxKeys = 1 << 14

// Limits are the limits of keys. They are safe for concurrent use.
type Limits struct {
	// Limiter has the client's share of the rate of each key.
	*keyed.Limiter[string]
	share float64

	mu    sync.Mutex // guards what follows
	keys  map[string]told
	next  time.Time      // when a rate is due
	units map[string]int // held, by key
}

// told holds the facts about a key that the server has told.
type told struct {
	at    time.Time // when it told the rate
	units int       // the concurrency limit; 0 if it is not known
}

// New returns Limits of a client that has a share of each, from 0 to 1. Keys of which
// no rate is known have the Quota other.
func New(share float64, other gcra.Quota) (*Limits, error) {
	rates, err := keyed.New[string](other, keyed.Config{})
	return &Limits{Limiter: rates, share: share, keys: map[string]told{}, units: map[string]int{}}, err
}

// Due returns one of some keys if its rate is unknown or stale, and if it is time to
// ask for one. The caller must ask, and call Learn.
func (l *Limits) Due(now time.Time, keys iter.Seq[string]) (key string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		return "", false
	}
	for key := range keys {
		if now.Sub(l.keys[key].at) > askAgain {
			l.next = now.Add(time.Hour) // Learn comes before that
			return key, true
		}
	}
	return "", false
}

// Learn takes in the rate of a key that an answer tells: its RateLimit-Policy field
// and its error. Answers other than a grant or a denial tell none. A denial without a
// policy and without a wait means that no rule matches and the server denies such keys.
func (l *Limits) Learn(now time.Time, key string, policy []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = now.Add(askEvery)
	denied, no := err.(*weir.Rejection)
	if err != nil && !no {
		return
	}
	entry := l.keys[key]
	entry.at = now
	l.put(key, entry)
	q, limited := tightest(policy, l.share)
	if limited || no && denied.Reason == weir.OverRate && denied.RetryAfter == 0 {
		l.SetQuotaFor(key, &q)
	} else {
		l.SetQuotaFor(key, nil)
	}
}

// put sets what is known about a key, and forgets any other key if there are too many.
func (l *Limits) put(key string, entry told) {
	if _, known := l.keys[key]; !known && len(l.keys) >= maxKeys {
		for other := range l.keys {
			delete(l.keys, other)
			l.SetQuotaFor(other, nil)
			break
		}
	}
	l.keys[key] = entry
}

// Granted counts n units of a key that the server has granted under a limit, which is
// zero if it is not known.
func (l *Limits) Granted(key string, n, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.keys[key]
	entry.units = limit
	l.put(key, entry)
	l.units[key] += n
}

// Enter counts n units of a key if the share of the last limit allows them: at least
// one unit, and every number if no limit is known.
func (l *Limits) Enter(key string, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.keys[key].units
	if limit > 0 && l.units[key]+n > max(int(float64(limit)*l.share), 1) {
		return false
	}
	l.units[key] += n
	return true
}

// Leave takes back what Granted or Enter has counted.
func (l *Limits) Leave(key string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.units[key] -= n; l.units[key] == 0 {
		delete(l.units, key)
	}
}

// tightest returns a share of the Quota that keeps to all policies of a
// RateLimit-Policy field: the lowest rate, and the least burst, but not less than
// one token unless it is none. ok is false if the field has no policy in requests,
// or is malformed. A policy without a window never refills.
func tightest(lines []string, share float64) (q gcra.Quota, ok bool) {
	perSecond, burst := math.Inf(1), math.Inf(1)
	for _, p := range ratelimitfield.ParsePolicies(lines) {
		if p.Unit != ratelimitfield.UnitRequests {
			continue
		}
		window := math.Inf(1)
		if p.Window > 0 {
			window = p.Window.Seconds()
		}
		perSecond, burst = min(perSecond, float64(p.Quota)/window), min(burst, float64(p.Quota))
	}
	switch {
	case math.IsInf(burst, 1):
		return gcra.Quota{}, false
	case burst == 0:
		return gcra.Quota{}, true
	}
	return gcra.PerSecond(perSecond*share, int(max(burst*share, 1))), true
}
