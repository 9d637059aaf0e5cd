// Package cache keeps the results of expensive calls: it does the work once,
// and serves it many times.
//
//	users, err := cache.New(cache.Config[string, *User]{TTL: time.Minute, StaleIfRejected: time.Hour, Limiter: lim})
//	...
//	user, err := users.Get(ctx, id, loadUser) // loadUser runs only if no fresh value is kept
//
// A call goes the way from the cheapest answer to the dearest: a fresh value;
// an old one, while somebody fetches a new one; the result of a fill that is
// running already; the limiters; the fill. So a limiter never refuses what the
// cache can answer, and an overloaded backend is asked once for each value,
// however many want it. What comes after an error or a rejection is an old
// value, if there is one that is not too old.
//
// # What is evicted
//
// New entries stand in a queue, the window; those that are asked for again
// there go on to another, the main queue, which is a clock. What is not contends
// with the oldest of main: the one that was asked for more often of late stays,
// as in W-TinyLFU. So neither a scan nor a loop washes out what is popular. The
// share of the window follows what comes back: it grows while keys are popular
// for a short time only. Hits move nothing. In docs/cache.md, hit ratios on
// eleven traces are beside those of other caches.
//
// It is bad at keys that are asked for again at one fixed distance, longer than
// the window and a sixteenth of the cache, and then never again.
//
// # When not to use it
//
// Values are shared by all who get them: they must not be changed. A value
// that depends on who asks (on what the context carries, besides the key) must
// not be cached. For a handful of values that never expire, a sync.Map or
// sync.OnceValue is simpler.
package cache

import (
	"cmp"
	"context"
	"hash/maphash"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/flight"
)

// A Cache keeps values by their key, within a bound. It is safe for concurrent
// use. A hit takes no lock and allocates nothing. All else takes a mutex for a
// moment; but when the table doubles, half a second at a million entries, or
// when a value takes the place of as many, those who miss wait for it.
//
// Keys of any comparable type will do. One that is not equal to itself (NaN) is
// filled by each lookup, and never kept. A key that is an interface panics if
// what it holds is not comparable.
type Cache[K comparable, V any] struct {
	cfg     Config[K, V]
	seed    maphash.Seed
	epoch   time.Time
	size    int64                       // of an entry, in bytes
	table   atomic.Pointer[table[K, V]] // read without mu
	runs    atomic.Pointer[flight.Group[K, V]]
	lookups counters

	closing context.Context // of background refreshes
	close   context.CancelFunc
	group   sync.WaitGroup

	mu        sync.Mutex // guards what follows, and every change of table
	policy    *policy[K, V]
	filling   map[K]uint64 // the runs whose value shall be kept, by the number of their fill
	refreshes int          // that run in the background
	closed    bool
	stats     Stats
}

// New returns a Cache. The error is Config.Validate's.
func New[K comparable, V any](cfg Config[K, V]) (*Cache[K, V], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	bound := cfg.Bytes
	if bound == 0 {
		bound = int64(cmp.Or(cfg.Entries, DefaultEntries))
	}
	if cfg.Refreshes == 0 {
		cfg.Refreshes = DefaultRefreshes
	}
	c := &Cache[K, V]{
		cfg: cfg, seed: maphash.MakeSeed(), epoch: time.Now(), size: size[K, V](),
		lookups: newCounters(), filling: make(map[K]uint64),
	}
	c.newRuns()
	c.table.Store(newTable[K, V](minBuckets))
	c.policy = newPolicy[K, V](bound, rand.Uint64())
	c.closing, c.close = context.WithCancel(context.Background())
	return c, nil
}

// newRuns makes the next lookups join none of the runs there are.
func (c *Cache[K, V]) newRuns() { c.runs.Store(&flight.Group[K, V]{Timeout: c.cfg.Timeout}) }

func (c *Cache[K, V]) now() int64 { return int64(time.Since(c.epoch)) }

func (c *Cache[K, V]) hash(key K) uint64 { return maphash.Comparable(c.seed, key) }

// Get returns the value of a key. If there is no fresh one, fill gets it:
// coalesced with the fills of the same key by others, and after Config's
// limiters. The context that fill gets has the values of one caller's, but
// ends only when all who wait for it have left, or with Config.Timeout. ctx
// bounds the wait of this caller.
//
// The error is fill's, kept or new; a *weir.Rejection; ctx's own; or a
// *flight.PanicError. All who wait for a fill get its error, or rejection. If an
// old value may be returned in its place (see Config), it is, and the error is
// nil.
//
// fill must not get the same key, nor one whose fill gets this one: they would
// wait for each other, until Config.Timeout at best.
//
// fill is not called, and nothing is allocated, if a fresh value is kept. But to
// pass a function that captures variables, or a method of a value, Go allocates
// at each call of Get: pass a function, or a func value made once.
func (c *Cache[K, V]) Get(ctx context.Context, key K, fill func(context.Context, K) (V, error)) (V, error) {
	v, _, err := c.Lookup(ctx, key, fill)
	return v, err
}

// Lookup is Get, and says besides where the value comes from.
func (c *Cache[K, V]) Lookup(ctx context.Context, key K, fill func(context.Context, K) (V, error)) (V, Status, error) {
	hash := c.hash(key)
	e := c.table.Load().find(hash, key)
	var now int64
	if e != nil && e.early != forever { // what never expires needs no clock
		now = c.now()
	}
	if e != nil && now < e.early {
		e.touch()
		c.lookups.add(Hit)
		return e.value, Hit, e.err
	}
	return c.miss(ctx, hash, key, e, now, fill)
}

// Peek returns the value of a key if a fresh one is kept. It is no use of the
// value: eviction does not learn of it.
func (c *Cache[K, V]) Peek(key K) (value V, ok bool) {
	e := c.table.Load().find(c.hash(key), key)
	if e == nil || !e.fresh(c.now()) || e.err != nil {
		return value, false
	}
	return e.value, true
}

// Set keeps a value. The result of a fill of that key that is running goes to
// those who wait for it, and is not kept.
func (c *Cache[K, V]) Set(key K, value V) {
	hash := c.hash(key)
	fresh := c.entry(hash, key, value, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(key)
	old := c.table.Load().find(hash, key)
	c.store(old, fresh)
}

// Delete removes the value of a key. The result of a fill of that key that is
// running goes to those who wait for it, and is not kept; who comes later
// waits for a new one.
func (c *Cache[K, V]) Delete(key K) {
	hash := c.hash(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(key)
	if e := c.table.Load().find(hash, key); e != nil {
		c.policy.remove(e)
		c.table.Load().remove(e)
		c.shrink()
	}
}

// Purge removes everything, as Delete does.
func (c *Cache[K, V]) Purge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.filling)
	c.newRuns()
	c.policy.clear()
	c.table.Store(newTable[K, V](minBuckets))
}

// All returns the fresh values that are kept, in no order. What is changed
// meanwhile may be in it or not, or twice. It is no use of the values.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		now := c.now()
		c.table.Load().each(func(e *entry[K, V]) bool {
			return e.err != nil || !e.fresh(now) || yield(e.key, e.value)
		})
	}
}

// Close cancels the refreshes in the background, and waits until their fills
// have returned: a fill must not call it. A fill that somebody else waits for by
// then goes on for him, and Close waits for it, too. Afterwards callers refresh
// for themselves. It may be called more than once, and does nothing for a Cache
// without Config.Background.
func (c *Cache[K, V]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.group.Wait()
}
