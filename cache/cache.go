// Package cache keeps the results of expensive calls, so that the work is done
// once and its result is returned many times:
//
//	users, err := cache.New(cache.Config[string, *User]{TTL: time.Minute, Refresh: cache.Refresh{Limiter: lim}})
//	...
//	user, err := users.Get(ctx, id, loadUser) // loadUser runs only if no fresh value is kept
//
// Get returns the cheapest answer there is: a fresh value; an old value, while
// one caller fetches a new one; the result of a fill that is already running;
// and only then, behind the limiters, a new fill. So a limiter never rejects
// what the cache can answer, and an overloaded backend is asked once per value,
// however many callers want it. After an error or a rejection, an old value is
// returned if it is not too old.
//
// # What is evicted
//
// A new entry competes with the oldest one: the entry that was asked for more often
// recently stays (W-TinyLFU). So neither a scan nor a loop displaces popular entries.
// docs/cache.md compares hit ratios on eleven traces with those of other caches, and
// describes a weakness.
//
// # When not to use it
//
// Callers share the values and must not change them. A value that depends on
// the caller (on the context, besides the key) must not be cached. For a few
// values that never expire, a sync.Map or sync.OnceValue is simpler.
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

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/stripe"
)

// A Cache keeps values by key, within a bound. It is safe for concurrent use. A
// hit takes no lock and allocates nothing. Other calls hold a mutex briefly.
// When one value takes the place of many, misses wait for it.
//
// A key that is not equal to itself (NaN) is filled by each lookup and never
// kept. A key of an interface type panics if its content is not comparable.
type Cache[K comparable, V any] struct {
	// What a hit reads comes first, in one or two cache lines.
	table   atomic.Pointer[table[K, V]] // read without mu
	seed    maphash.Seed
	lookups counters
	epoch   time.Time

	cfg  Config[K, V]
	all  weir.Limiter // Config.Limiter, or one that admits everything
	size int64        // of an entry, in bytes
	runs atomic.Pointer[flight.Group[K, V]]

	closing context.Context // of background refreshes
	close   context.CancelFunc
	group   sync.WaitGroup

	mu        sync.Mutex // guards what follows, and every change of table
	policy    *policy[K, V]
	filling   map[K]uint64 // the number of the last fill of each key, if its value shall be kept
	refreshes int          // background refreshes in progress
	closed    bool
	stats     Stats
	hand      int              // the bucket that clean has cleaned last
	evicted   []eviction[K, V] // for unlock
	sweeper   *time.Timer      // nil without Config.Sweep
}

// New returns a Cache, or an error that names the first field with a bad value.
func New[K comparable, V any](cfg Config[K, V]) (*Cache[K, V], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Cache[K, V]{
		cfg: cfg, all: weir.Chain(cfg.Limiter), seed: maphash.MakeSeed(), epoch: time.Now(), size: size[K, V](),
		lookups: counters{stripe.New()}, filling: make(map[K]uint64),
	}
	c.newRuns()
	c.table.Store(newTable[K, V](minBuckets))
	c.policy = newPolicy[K, V](cmp.Or(cfg.Bytes, int64(cfg.Entries), DefaultEntries), rand.Uint64())
	c.closing, c.close = context.WithCancel(context.Background())
	if cfg.Sweep > 0 {
		c.startSweeping()
	}
	return c, nil
}

// newRuns makes later lookups join none of the runs in progress.
func (c *Cache[K, V]) newRuns() { c.runs.Store(&flight.Group[K, V]{Timeout: c.cfg.Timeout}) }

func (c *Cache[K, V]) now() int64 { return int64(time.Since(c.epoch)) }

func (c *Cache[K, V]) hash(key K) uint64 { return maphash.Comparable(c.seed, key) }

// Get returns the value of a key. If there is no fresh one, it calls fill,
// behind the limiters of Config; callers of the same key share one fill. The
// context of fill has the values of one caller's context, but ends only when
// all callers that wait have left, or with Config.Timeout. ctx bounds the wait
// of this caller.
//
// The error comes from fill, new or kept, or from ctx, or it is a *weir.Rejection
// or a *flight.PanicError. All callers that wait for a fill get its error. If an old
// value may be returned instead (see Refresh), it is, and the error is nil.
//
// fill must not get the same key, directly or by the fill of another key: they
// would wait for each other until Config.Timeout.
//
// If a fresh value is kept, Get does not allocate. Go itself allocates at each
// call for a function that captures variables, or a method value: pass a
// function, or a func value made once.
func (c *Cache[K, V]) Get(ctx context.Context, key K, fill func(context.Context, K) (V, error)) (V, error) {
	v, _, err := c.Lookup(ctx, key, fill)
	return v, err
}

// Lookup is Get, and also reports where the value comes from.
func (c *Cache[K, V]) Lookup(ctx context.Context, key K, fill func(context.Context, K) (V, error)) (V, Status, error) {
	hash := c.hash(key)
	e := c.table.Load().find(hash, key)
	var now int64
	if e != nil && e.early != never { // an entry without expiry needs no clock
		now = c.now()
	}
	if e != nil && now < e.early {
		e.touch()
		c.lookups.add(Hit)
		return e.value, Hit, e.err
	}
	return c.miss(ctx, hash, key, e, now, fill)
}

// Peek returns the value of a key if a fresh one is kept. Eviction does not
// count it as a use.
func (c *Cache[K, V]) Peek(key K) (value V, ok bool) {
	e := c.table.Load().find(c.hash(key), key)
	if e == nil || !e.fresh(c.now()) || e.err != nil {
		return value, false
	}
	return e.value, true
}

// Set keeps a value. If a fill of that key is running, its callers get its
// result, but it is not kept.
func (c *Cache[K, V]) Set(key K, value V) {
	hash := c.hash(key)
	fresh := c.entry(hash, key, value, nil, 0)
	c.mu.Lock()
	defer c.unlock()
	c.forget(key)
	c.store(c.table.Load().find(hash, key), fresh)
}

// Delete removes the value of a key. If a fill of that key is running, its
// callers get its result, but it is not kept; later callers wait for a new fill.
func (c *Cache[K, V]) Delete(key K) {
	hash := c.hash(key)
	c.mu.Lock()
	defer c.unlock()
	c.forget(key)
	if e := c.table.Load().find(hash, key); e != nil {
		c.remove(e, Deleted)
		c.shrink()
	}
}

// Purge removes all values, as Delete does.
func (c *Cache[K, V]) Purge() {
	c.mu.Lock()
	defer c.unlock()
	clear(c.filling)
	c.newRuns()
	if c.cfg.OnEvict != nil {
		for e := range c.table.Load().each {
			c.evict(e, Deleted)
		}
	}
	c.policy.clear()
	c.table.Store(newTable[K, V](minBuckets))
}

// All returns the fresh values in no particular order. Values that change
// meanwhile may be missing, or occur twice. Eviction does not count it as a use.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		now := c.now()
		for e := range c.table.Load().each {
			if e.err == nil && e.fresh(now) && !yield(e.key, e.value) {
				return
			}
		}
	}
}

// Close cancels the background refreshes, waits until their fills have
// returned, and stops the sweeps. A fill must not call it. If a caller waits for
// such a fill, Close waits for it too. Afterwards callers refresh for
// themselves. Close may be called more than once. It is needed only with
// Config.Background.
func (c *Cache[K, V]) Close() {
	c.mu.Lock()
	c.closed = true
	if c.sweeper != nil {
		c.sweeper.Stop()
	}
	c.mu.Unlock()
	c.close()
	c.group.Wait()
}

// A Status is where the answer of a lookup comes from.
type Status uint8

const (
	Failed    Status = iota // there is no value: an error that was not kept before
	Hit                     // a fresh value, or an error that is kept
	Stale                   // a value that is no longer fresh
	Filled                  // a fill by this lookup
	Coalesced               // a fill by another lookup, at the same time
	statuses
)

var names = [statuses]string{"failed", "hit", "stale", "filled", "coalesced"}

// String returns the status as metrics and logs spell it.
func (s Status) String() string {
	if s < statuses {
		return names[s]
	}
	return "unknown"
}

// Stats are the counts since New, and the state.
type Stats struct {
	// Lookups counts lookups by where their answers came from. All five are
	// present, and the map belongs to the caller.
	Lookups map[Status]uint64

	Fills    uint64 // begun, including background and rejected ones
	Rejected uint64 // fills that a limiter rejected
	Errors   uint64 // fills that failed otherwise
	Evicted  uint64 // entries evicted to make room
	TooLarge uint64 // values not kept because each was larger than Config.Bytes by itself

	Entries int   // kept now, fresh or not
	Bytes   int64 // their share of Config.Bytes; 0 without it
}

// Stats returns the counts and the state. They are read one after the other.
func (c *Cache[K, V]) Stats() Stats {
	c.mu.Lock()
	s := c.stats
	s.Entries = c.table.Load().entries
	if c.cfg.Bytes > 0 {
		s.Bytes = c.policy.cost()
	}
	c.mu.Unlock()
	s.Lookups = make(map[Status]uint64, statuses)
	for status := range statuses {
		s.Lookups[status] = c.lookups.Sum(uint8(status))
	}
	return s
}

// counters counts lookups by their Status. Its method is inlined where a Cache is
// instantiated; a call of stripe.Counters.Add would not be.
type counters struct{ stripe.Counters }

func (c counters) add(s Status) { c.Add(uint8(s)) }
