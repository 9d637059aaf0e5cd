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
	clients int // that have the limits together

	mu    sync.Mutex // guards what follows
	keys  map[string]told
	next  time.Time      // when a rate is due
	units map[string]int // held, by key
}

// told holds the facts about a key that the server has told.
type told struct {
	at    time.Time // when it answered
	rate  bool      // it has a rate
	units int       // the concurrency limit; 0 if it is not known
}

// New returns Limits for one of a number of clients, which all have the same share. Keys
// of which no rate is known have the Quota other.
func New(clients int, other gcra.Quota) (*Limits, error) {
	rates, err := keyed.New[string](other, keyed.Config{})
	return &Limits{Limiter: rates, clients: clients, keys: map[string]told{}, units: map[string]int{}}, err
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
	q, limited := tightest(policy, l.clients)
	entry := l.keys[key]
	entry.at, entry.rate = now, limited
	l.put(key, entry)
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

// Charge takes n tokens that the server has granted from the share of their key, if its
// rate is known and they are there.
func (l *Limits) Charge(key string, n int) {
	l.mu.Lock()
	known := l.keys[key].rate
	l.mu.Unlock()
	if known {
		l.Take(key, n)
	}
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

// Enter counts n units of a key if the share of the last limit allows them: none if no
// limit is known.
func (l *Limits) Enter(key string, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.units[key]+n > l.keys[key].units/l.clients {
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

// tightest returns the share that each of a number of clients has of the Quota that keeps
// to all policies of a RateLimit-Policy field: the lowest rate, and the least burst. ok is
// false if the field has no policy in requests, or is malformed. A policy without a
// window never refills.
func tightest(lines []string, clients int) (q gcra.Quota, ok bool) {
	perSecond, burst := math.Inf(1), int64(math.MaxInt)
	for _, p := range ratelimitfield.ParsePolicies(lines) {
		if p.Unit != ratelimitfield.UnitRequests {
			continue
		}
		window := math.Inf(1)
		if p.Window > 0 {
			window = p.Window.Seconds()
		}
		perSecond, burst = min(perSecond, float64(p.Quota)/window), min(burst, p.Quota)
	}
	if math.IsInf(perSecond, 1) {
		return gcra.Quota{}, false
	}
	return gcra.PerSecond(perSecond/float64(clients), int(burst/int64(clients))), true
}
