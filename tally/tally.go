// Package tally counts the events of every key in windows of time, in memory
// that nobody can blow up: package window for many keys, as keyed is package
// gcra for many. Where the promise is not about windows, prefer keyed.
//
//	lim, err := tally.New(tally.Quota{Limit: 1000, Period: time.Hour}, tally.Config{})
//	...
//	if d := lim.Take(user, 1, 0); !d.OK { ... }
//
// # Memory
//
// A count is two words beside a 64-bit fingerprint of its key, 25 to 40 bytes in
// all; the key itself is not kept. Pages of them are added as keys
// come, up to Config.Memory, and hold nothing for the garbage collector to look
// at. A count whose window has ended (sliding: that has faded out) is no
// different from none, so its place is given to the next key that needs one:
// there is no expiry, no timer and no sweep.
//
// Two keys with the same fingerprint share a count. The hash is seeded at
// random, so nobody can look for such keys; the odds that there are any among
// n live ones are n²/2⁶⁵: 1 in 37 million for a million keys.
//
// # When memory is full
//
// If every place that a key may have is taken by a live count, the least used
// of them is forgotten, and its page remembers what it was: as long as that
// would have counted, a key that has no place starts from there. That bounds
// what a flood of fresh keys can do.
//
//   - Nobody is allowed too much. Who is forgotten and comes back finds at most
//     what would have been left for it: a window cannot be begun anew by
//     churning keys. What package window says of stretches of time holds.
//   - A key that has its place is judged exactly as if it were alone.
//   - A key without one may be denied wrongly: it lacks at most as many events
//     as the least used of 32 neighbours had when that was forgotten, and a
//     fixed window that it begins so lasts a whole period. While keys come once
//     each, and those of a period (sliding: of two) are at most seven tenths of
//     the places that there are (40 a kibibyte), few are forgotten, and one event
//     is all that others lack. When more come for so long that a whole
//     neighbourhood has used its limit, keys without a place are denied until
//     the windows there end.
package tally

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/siphash"
)

// DefaultMemory is Config.Memory if that is zero. Else it may be from MinMemory
// to MaxMemory.
const (
	DefaultMemory = 64 << 20
	MinMemory     = 64 << 10
	MaxMemory     = 1 << 40
)

// MaxLimit is what a larger limit counts as, and MinPeriod what a shorter Period
// does: two words hold no more.
const (
	MaxLimit  = 1<<42 - 1
	MinPeriod = time.Millisecond
)

// A Quota is so many events in a window.
type Quota struct {
	Limit  int           // events in a window. Zero or less: none
	Period time.Duration // of a window. Zero or less: the window never ends
	// Sliding lets the last window fade out over the next (window.Sliding), with
	// windows that begin with the clock's: those of an hour with the hours of UTC.
	// Else windows are fixed (window.Fixed), and a key's begin with its first event.
	Sliding bool
}

// Config is what a Limiter has beside its Quota. The zero value is ready to use.
type Config struct {
	// Memory bounds the memory for counts, in bytes: DefaultMemory if zero, else
	// from MinMemory to MaxMemory. Beside it are the most denied keys, up to eight
	// for each 128 kB, whatever their size (see Top).
	Memory int
	// MaxDebt bounds by how many events a window may be exceeded by work that cost
	// more than was thought. If zero, by the limit; if negative, not at all.
	MaxDebt int
	// NoTop keeps no keys: Top returns none. Else the keys most denied are kept, and
	// what they are parts of with them.
	NoTop bool
}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	if c.Memory != 0 && c.Memory < MinMemory || c.Memory > MaxMemory {
		return fmt.Errorf("tally: Memory = %d: must be 0, or from %d to %d", c.Memory, MinMemory, int64(MaxMemory))
	}
	return nil
}

// A Limiter counts the events of every key. It is safe for concurrent use, and
// starts no goroutine.
type Limiter struct {
	cfg   Config
	table atomic.Pointer[table]

	changes sync.Mutex // held by whoever changes or copies the whole, however long it takes
	rule    *rule      // of the present Quota; guarded by changes
}

// New returns a Limiter that gives every key the Quota q. The error is
// Config.Validate's.
func New(q Quota, cfg Config) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	l := &Limiter{cfg: cfg, rule: newRule(q, cfg.MaxDebt)}
	t := newTable(cfg.Memory, siphash.New(), l.rule)
	t.noTop = cfg.NoTop
	l.table.Store(t)
	return l, nil
}

// Take counts n events of a key if they are within the limit, and says what is
// left and when to come back. A limit > 0 counts instead of the Quota's, for
// this call alone and against the same count. More than the limit are never
// allowed: then RetryAfter is weir.Never. With n = 0 it counts nothing, and is
// allowed. It panics if n < 0.
func (l *Limiter) Take(key string, n, limit int) weir.Decision {
	checkCost(n)
	t := l.table.Load()
	print := t.print(key)
	return t.shard(print).take(t, print, &key, t.now(), n, limit)
}

// TakeAt is Take at the time t, which is not long ago: a window may begin then.
func (l *Limiter) TakeAt(key string, at time.Time, n, limit int) weir.Decision {
	checkCost(n)
	t := l.table.Load()
	print := t.print(key)
	return t.shard(print).take(t, print, &key, at.Sub(t.epoch), n, limit)
}

// A Bucket is what counts for a key, until Restore: for who asks again for the same
// key.
type Bucket uint64

// BucketOf returns the Bucket of a key.
func (l *Limiter) BucketOf(key string) Bucket { return Bucket(l.table.Load().print(key)) }

// TakeBucket is TakeAt for the key that a Bucket is of. Denials are not counted in
// Top, for the key is not known.
func (l *Limiter) TakeBucket(b Bucket, at time.Time, n, limit int) weir.Decision {
	checkCost(n)
	t := l.table.Load()
	return t.shard(uint64(b)).take(t, uint64(b), nil, at.Sub(t.epoch), n, limit)
}

// SettleAt tells that work of the key cost n events instead of the was that were
// counted for it, and when: at is an instant after Take returned, and soon after
// (one before may be before the window that Take began). One in the future is
// now. What was too much comes back if that window is still the present one.
// What was too little is counted in the present window without asking: beyond
// the Quota's limit by up to Config.MaxDebt; what is beyond that is forgiven. It
// returns what is charged: n, less if some is forgiven, more if not all came
// back. It panics if was or n is negative.
func (l *Limiter) SettleAt(key string, at time.Time, was, n int) int {
	checkCost(was)
	checkCost(n)
	t := l.table.Load()
	print := t.print(key)
	now := t.now()
	return t.shard(print).settle(t, print, min(at.Sub(t.epoch), now), now, was, n)
}

// Used returns how many events of the key count at present, and how long it
// takes until none does if no more come. If windows slide it is the estimate,
// rounded up.
func (l *Limiter) Used(key string) (used int, resetIn time.Duration) {
	t := l.table.Load()
	print := t.print(key)
	now := t.now()
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rule.used(s.find(t, print).count, now)
}

// Ahead returns when, from now, n events more of the key have been counted, if
// they come one by one, each as soon as it can, and nobody else comes. n may
// exceed the Quota's limit, and take several windows. It is exact for that;
// events that are counted several at a time may have to wait for longer. If it
// is in vain it is weir.Never. A limit > 0 counts instead of the Quota's. It
// panics if n < 0.
func (l *Limiter) Ahead(key string, n, limit int) time.Duration {
	checkCost(n)
	t := l.table.Load()
	print := t.print(key)
	now := t.now()
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(t, print)
	r := *s.rule
	if limit > 0 {
		r.limit = min(limit, MaxLimit)
	}
	return r.ahead(p.count, now, n, p.slot == nil)
}

// SetQuota changes the Quota. What a key has used stays used. If Period or
// Sliding changes, what counts at that instant counts under the new Quota as if
// it had all come at that instant. So nobody gets more for the change: from it
// on, the new Quota's promise holds, with what had been used before as a
// beginning. Each shard is locked for as long as it takes to go through it: well
// under a millisecond. It waits for a Snapshot under way.
func (l *Limiter) SetQuota(q Quota) {
	l.changes.Lock()
	defer l.changes.Unlock()
	l.rule = newRule(q, l.cfg.MaxDebt)
	t := l.table.Load()
	for i := range t.shards {
		t.shards[i].setRule(t, l.rule)
	}
}

// checkCost panics before a lock is taken.
func checkCost(n int) {
	if n < 0 {
		panic("tally: negative cost")
	}
}
