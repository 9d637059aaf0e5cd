package cache

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-go/weir"
)

// An entry holds a value, or the error of a fill. Its fields do not change while
// it is in the table, except for atomic ones and the policy's node, which the
// mutex guards.
type entry[K comparable, V any] struct {
	node[K, V]
	key   K
	value V
	early int64 // the instant from which it may be refreshed, in ns since the epoch: at most until
	until int64 // the instant at which it is no longer fresh
	took  int64 // how long the fill took, in ns
	err   error

	strict     bool                  // never returned after until
	refreshing atomic.Bool           // a caller fetches a new value
	fault      atomic.Pointer[fault] // the error of the last fill, if that is kept
}

// A fault is an error kept beside an old value.
type fault struct {
	err   error
	until int64 // no fill before that instant
}

// faulty returns the error kept beside the value of e, or nil.
func (e *entry[K, V]) faulty(now int64) error {
	if f := e.fault.Load(); f != nil && now < f.until {
		return f.err
	}
	return nil
}

// never is weir.Never as an instant.
const never = int64(weir.Never)

// later returns the instant d after now, at most never.
func later(now int64, d time.Duration) int64 {
	return now + min(int64(d), never-now)
}

func (e *entry[K, V]) fresh(now int64) bool { return now < e.until }

// age is the time since an entry was fresh; negative if it is.
func (e *entry[K, V]) age(now int64) int64 { return now - e.until }

// entry returns an entry for the value or the error of a fill, and its duration; or
// nil if it is not to be kept.
func (c *Cache[K, V]) entry(hash uint64, key K, value V, err error, took int64) *entry[K, V] {
	if itself := key == key; !itself { // NaN would not be found again
		return nil
	}
	ttl := c.cfg.TTL
	if err != nil {
		ttl = c.cfg.ErrorTTL
	}
	if c.cfg.TTLOf != nil {
		ttl = cmp.Or(c.cfg.TTLOf(key, value, err), ttl)
	}
	if ttl < 0 {
		return nil
	}
	e := &entry[K, V]{key: key, err: err, took: took, until: never}
	e.hash, e.cost = hash, c.cost(key, value, err)
	if err == nil {
		e.value = value
		ttl -= time.Duration(c.cfg.Jitter * rand.Float64() * float64(ttl))
	}
	if ttl > 0 {
		e.until = later(c.now(), ttl)
		e.strict = err == nil && c.cfg.NoStale != nil && c.cfg.NoStale(key, value)
	}
	e.early = e.until
	if c.cfg.Early > 0 && e.until != never && err == nil {
		e.early -= int64(min(c.cfg.Early*float64(took)*unlikely, float64(e.until)))
	}
	return e
}

// unlikely is a bound of draws from the exponential distribution: the odds of a
// larger one are 1 to 10¹⁶.
const unlikely = 37

// early draws whether a fresh value that is past its early instant is to be refreshed:
// XFetch, of Vattani, Chierichetti and Lowenstein, "Optimal Probabilistic Cache Stampede
// Prevention" (VLDB 2015): now - Δ·β·ln(rand()) >= expiry.
func (c *Cache[K, V]) early(e *entry[K, V], now int64) bool {
	return float64(e.took)*c.cfg.Early*rand.ExpFloat64() >= float64(e.until-now)
}

// serves reports whether a value may be returned in place of an error. A context
// may have ended during the wait for a limiter, or during the fill.
func (c *Cache[K, V]) serves(e *entry[K, V], now int64, err error) bool {
	beyond := c.cfg.Stale
	rejected := errors.Is(err, weir.ErrRejected)
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if rejected || ended {
		beyond = max(beyond, c.cfg.StaleIfRejected)
	}
	if !rejected || ended {
		beyond = max(beyond, c.cfg.StaleIfError)
	}
	return e.within(beyond, now)
}

// within reports whether a value may be returned that long after its TTL.
func (e *entry[K, V]) within(beyond time.Duration, now int64) bool {
	if e.strict {
		beyond = 0
	}
	return e.age(now) < int64(beyond)
}

// useful reports whether a value may still be returned, if only in place of an
// error.
func (c *Cache[K, V]) useful(e *entry[K, V], now int64) bool {
	return e.err == nil && e.within(max(c.cfg.Stale, c.cfg.StaleIfError, c.cfg.StaleIfRejected), now)
}

// cost returns an entry's share of the bound.
func (c *Cache[K, V]) cost(key K, value V, err error) int64 {
	if c.cfg.Bytes == 0 {
		return 1
	}
	cost := c.size + overhead
	if err == nil {
		cost += min(max(c.cfg.Cost(key, value), 0), MaxBytes) // no overflow, and above every bound
	}
	return cost
}

// overhead bounds the memory for an entry besides itself, in bytes: a bucket of
// the table (see sparse), and 24 for chains and the policy's sketch.
const overhead = 64 + 24

// size returns the memory of an entry. The allocator rounds up, as for a slice,
// and adds a word to large objects with pointers.
func size[K comparable, V any]() int64 {
	n := int(unsafe.Sizeof(entry[K, V]{}))
	if n > 512 {
		n += 8
	}
	return int64(cap(slices.Grow([]byte(nil), n)))
}

// store keeps an entry in the place of an old one of the same key; either may
// be nil. The mutex is held.
func (c *Cache[K, V]) store(old, e *entry[K, V]) {
	t := c.table.Load()
	if e != nil && e.cost > c.policy.bound {
		c.stats.TooLarge++
		e = nil
	}
	switch {
	case e == nil && old != nil:
		c.remove(old, Replaced)
	case e == nil:
	case old != nil:
		c.policy.replace(old, e)
		t.replace(old, e)
		c.evict(old, Replaced)
	default:
		t = t.fit(1)
		c.table.Store(t)
		t.put(e)
		c.policy.add(e)
	}
	for v := c.policy.evict(); v != nil; v = c.policy.evict() {
		t.remove(v)
		c.stats.Evicted++
		c.evict(v, NoRoom)
	}
	c.clean()
	c.shrink()
}

// clean removes the dead entries of one bucket, the next one at each call. So what has
// expired goes as new values come. The mutex is held.
func (c *Cache[K, V]) clean() {
	if c.cfg.TTL == 0 && c.cfg.TTLOf == nil && c.cfg.ErrorTTL == 0 {
		return
	}
	t, now := c.table.Load(), c.now()
	c.hand = (c.hand + 1) & (len(t.buckets) - 1)
	for e := range t.buckets[c.hand].chain {
		if c.dead(e, now) {
			c.remove(e, Expired)
		}
	}
}

// dead reports whether nothing of an entry will be returned any more.
func (c *Cache[K, V]) dead(e *entry[K, V], now int64) bool {
	return !e.fresh(now) && !c.useful(e, now) && e.faulty(now) == nil
}

// remove takes an entry out. The mutex is held.
func (c *Cache[K, V]) remove(e *entry[K, V], why Cause) {
	c.policy.remove(e)
	c.table.Load().remove(e)
	c.evict(e, why)
}

// shrink halves the table if it has lost most of its entries. The mutex is held.
func (c *Cache[K, V]) shrink() {
	c.table.Store(c.table.Load().fit(0))
}
