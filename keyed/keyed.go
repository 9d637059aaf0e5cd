// Package keyed limits the rate of every user, tenant or address at once: a
// token bucket for each key, in memory that nobody can blow up.
//
//	lim, err := keyed.New[string](gcra.Per(100, time.Minute, 20), keyed.Config{})
//	...
//	if !lim.Allow(user) { ... }
//
// # Memory
//
// A bucket is one word beside a 64-bit fingerprint of its key; the key itself
// is not kept. Pages of them are added as keys come, up to Config.Memory, and
// hold nothing for the garbage collector to look at. A bucket that is full
// again is no different from none, so its place is given to the next key that
// needs one: there is no expiry, no timer and no sweep.
//
// Two keys with the same fingerprint share a bucket. The hash is seeded at
// random, so nobody can look for such keys; the odds that there are any among
// n live ones are n²/2⁶⁵: 1 in 37 million for a million keys.
//
// # When memory is full
//
// If every place that a key may have is taken by a bucket in debt, the one in
// least debt is forgotten, and its page remembers that debt: a key that has no
// place starts with it. That bounds what a flood of fresh keys can do.
//
//   - Nobody is allowed too much. Who is forgotten and comes back finds at most
//     the tokens that it would have had: a bucket cannot be refreshed by
//     churning keys.
//   - A key that has its place is judged exactly as if it were alone.
//   - A key without one may be denied wrongly: it lacks at most as many tokens
//     as the least indebted of 32 neighbours did when that was forgotten. While
//     fresh keys, at a token each, come at up to nine tenths of the rate at
//     which all of memory refills (61 keys a kibibyte × the rate of one key),
//     that is one token at most. When more come for so long that all of memory
//     is a burst in debt, most keys without a place are denied.
//
// # When not to use it
//
// For a handful of keys known beforehand, a map of rate.Limiters is simpler
// and hides nothing. A key that its sender makes up (a header, a name before
// login) is no key: use an address or an account.
package keyed

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/waitq"
)

// Defaults where Config leaves things open.
const (
	DefaultMemory = 64 << 20
	DefaultQueue  = waitq.DefaultQueue
	DefaultIPv4   = 32
	DefaultIPv6   = 64
)

// Config.Memory may be from MinMemory to MaxMemory.
const (
	MinMemory = 64 << 10
	MaxMemory = 1 << 40
)

// Config is what a Limiter has beside its Quota. The zero value is ready to
// use.
type Config struct {
	// Memory bounds the memory for buckets, in bytes: DefaultMemory if zero,
	// else from MinMemory to MaxMemory. Beside it are those who wait, at some
	// 500 bytes each; the quotas of single keys; and the most denied keys, up
	// to eight for each 128 kB, whatever their size (see Top).
	Memory int
	// Queue bounds the number of waiters, of all keys together. If zero,
	// DefaultQueue; if negative, no call waits.
	Queue int
	// MaxWait bounds the time that Wait and Acquire wait. If zero, only the
	// context bounds it; if negative, no call waits.
	MaxWait time.Duration
	// MaxDebt bounds the debt of a key, in tokens, by work that cost more than
	// was thought. If zero, the burst; if negative, there is no debt.
	MaxDebt int
	// IPv4 and IPv6 say how many leading bits of a netip.Addr are the key. If
	// zero, DefaultIPv4 and DefaultIPv6. An IPv4 address is the same key in its
	// IPv6-mapped form. Other types that hold addresses are taken as they are.
	IPv4, IPv6 int
	// NoTop keeps no keys: Top returns none. Else the keys most denied are kept, and
	// what they are parts of with them.
	NoTop bool
}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Memory != 0 && c.Memory < MinMemory, c.Memory > MaxMemory:
		return fmt.Errorf("keyed: Memory = %d: must be 0, or from %d to %d", c.Memory, MinMemory, int64(MaxMemory))
	case c.IPv4 < 0 || c.IPv4 > 32:
		return fmt.Errorf("keyed: IPv4 = %d: must be 0 to 32", c.IPv4)
	case c.IPv6 < 0 || c.IPv6 > 128:
		return fmt.Errorf("keyed: IPv6 = %d: must be 0 to 128", c.IPv6)
	}
	return nil
}

// A Limiter has a token bucket for every key, at first full. It is safe for
// concurrent use, and starts no goroutine.
//
// Keys of any comparable type will do, if they are equal to themselves: a NaN is
// a new key each time. Strings, integers, arrays of bytes,
// netip.Addr and netip.Prefix have a hash of their own, which lets Snapshot
// work.
type Limiter[K comparable] struct {
	cfg     Config
	mask    mask
	hash    hash[K]
	table   atomic.Pointer[table[K]]
	waiting atomic.Int64

	changes sync.Mutex // held by whoever changes or copies the whole, however long it takes

	mu     sync.Mutex        // guards what follows, and is held for a moment only
	quota  gcra.Quota        // of keys without their own
	quotas map[K]*gcra.Quota // of keys with their own
}

// New returns a Limiter that gives every key the Quota q. The error is
// Config.Validate's.
func New[K comparable](q gcra.Quota, cfg Config) (*Limiter[K], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	if cfg.IPv4 == 0 {
		cfg.IPv4 = DefaultIPv4
	}
	if cfg.IPv6 == 0 {
		cfg.IPv6 = DefaultIPv6
	}
	m := mask{cfg.IPv4, cfg.IPv6}
	l := &Limiter[K]{cfg: cfg, mask: m, hash: newHash[K](m), quota: q, quotas: map[K]*gcra.Quota{}}
	t := newTable[K](cfg.Memory, siphash.New(), &q)
	t.noTop = cfg.NoTop
	l.table.Store(t)
	return l, nil
}

// Allow reports whether an event of the key may happen now, and counts it if
// so.
func (l *Limiter[K]) Allow(key K) bool { return l.AllowN(key, 1) }

// AllowN is Allow for n events. It panics if n < 0.
func (l *Limiter[K]) AllowN(key K, n int) bool {
	checkCost(n)
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	now := t.now()
	s := t.shard(print)
	s.mu.Lock()
	ok := s.allow(t, print, now, n)
	if !ok {
		s.deny(t, print, &key)
	}
	s.mu.Unlock()
	return ok
}

// Take is AllowN with reasons: what is left, and when to come back. Its
// RetryAfter is weir.Never if that is in vain. With n = 0 it takes nothing,
// and is denied only in debt. It panics if n < 0.
func (l *Limiter[K]) Take(key K, n int) weir.Decision {
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	return l.decide(t, print, &key, t.now(), n, nil)
}

// A Bucket is that of a key, until Restore: for who asks again for the same key, or
// does not keep it.
type Bucket uint64

// BucketOf returns the Bucket of a key.
func (l *Limiter[K]) BucketOf(key K) Bucket { return Bucket(l.table.Load().print(l.hash.sum, key)) }

// Decide is Take, with the Quota under which it decided, and the Bucket.
func (l *Limiter[K]) Decide(key K, n int) (d weir.Decision, q gcra.Quota, b Bucket) {
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	d = l.decide(t, print, &key, t.now(), n, &q)
	return d, q, Bucket(print)
}

// TakeAt is Take at the time t. One that is before that of an earlier decision
// does no harm: nothing comes in twice.
func (l *Limiter[K]) TakeAt(key K, at time.Time, n int) weir.Decision {
	t := l.table.Load()
	return l.decide(t, t.print(l.hash.sum, key), &key, at.Sub(t.epoch), n, nil)
}

// TakeBucket is TakeAt for the key that a Bucket is of. Denials are not counted in
// Top, for the key is not known.
func (l *Limiter[K]) TakeBucket(b Bucket, at time.Time, n int) weir.Decision {
	t := l.table.Load()
	return l.decide(t, uint64(b), nil, at.Sub(t.epoch), n, nil)
}

// decide takes n tokens of a key, nil if it is not known. It says under which
// Quota, if under is not nil.
func (l *Limiter[K]) decide(t *table[K], print uint64, key *K, now time.Duration, n int, under *gcra.Quota) weir.Decision {
	checkCost(n)
	s := t.shard(print)
	s.mu.Lock()
	var p place
	s.find(t, &p, print, now)
	b, d := p.quota.Take(p.bucket, now, n)
	switch {
	case n == 0:
	case d.OK:
		s.store(t, &p, b)
	default:
		s.deny(t, print, key)
	}
	if under != nil {
		*under = *p.quota
	}
	s.mu.Unlock()
	return d
}

// TokensAt returns how many tokens the key has at the time t, fractions
// included; less than zero if it is in debt, or taken ahead of time. If there is
// no limit, it is infinity.
func (l *Limiter[K]) TokensAt(key K, at time.Time) float64 {
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	var p place
	s.find(t, &p, print, t.now())
	return p.quota.Tokens(p.bucket, at.Sub(t.epoch))
}

// Settle tells that work of the key cost n events instead of the was that were
// taken for it. What was too much comes back, what was too little is taken
// without a wait: it may leave the bucket in debt, down to Config.MaxDebt; what
// is beyond that is forgiven. It returns what is charged: n, or less. It panics
// if either is negative.
func (l *Limiter[K]) Settle(key K, was, n int) int {
	return l.SettleBucket(l.BucketOf(key), was, n)
}

// SettleBucket is Settle for the key that a Bucket is of.
func (l *Limiter[K]) SettleBucket(b Bucket, was, n int) int {
	checkCost(was)
	checkCost(n)
	t := l.table.Load()
	return t.shard(uint64(b)).settle(t, uint64(b), was, n, l.cfg.MaxDebt)
}

// checkCost panics before a lock is taken.
func checkCost(n int) {
	if n < 0 {
		panic("keyed: negative cost")
	}
}

// For returns the limiter of one key.
func (l *Limiter[K]) For(key K) *Key[K] {
	k := &Key[K]{l: l, key: key}
	k.owner = (*owner[K])(k)
	return k
}

// A Key is the limiter of one key: a weir.Limiter, and one of package shape.
type Key[K comparable] struct {
	l     *Limiter[K]
	key   K
	owner weir.Owner // of its permits
}

// shown returns the key that stands for all that have the same bucket.
func (l *Limiter[K]) shown(key K) K {
	switch any(new(K)).(type) {
	case *netip.Addr:
		return any(l.mask.masked(any(key).(netip.Addr))).(K)
	case *netip.Prefix:
		return any(maskedPrefix(any(key).(netip.Prefix))).(K)
	}
	return key
}
