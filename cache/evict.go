package cache

import (
	"context"
	"slices"
	"time"
	"weak"

	"github.com/weir-go/weir"
)

// A Cause is why a value left a Cache.
type Cause string

const (
	NoRoom   Cause = "no_room"  // another value took its place
	Expired  Cause = "expired"  // its time was over, and that of Refresh
	Replaced Cause = "replaced" // there is a new value of the key, or a new one that is not kept
	Deleted  Cause = "deleted"  // by Delete or Purge
)

// An eviction is a call of OnEvict.
type eviction[K comparable, V any] struct {
	e   *entry[K, V]
	why Cause
}

// evict notes that a value has left, for unlock. The mutex is held.
func (c *Cache[K, V]) evict(e *entry[K, V], why Cause) {
	if c.cfg.OnEvict != nil && e.err == nil {
		c.evicted = append(c.evicted, eviction[K, V]{e, why})
	}
}

// unlock releases the mutex and then calls OnEvict.
func (c *Cache[K, V]) unlock() {
	evicted := c.evicted
	c.evicted = nil
	c.mu.Unlock()
	if len(evicted) > 0 {
		c.tell(evicted)
	}
}

// tell calls OnEvict for each eviction, even if a call panics.
func (c *Cache[K, V]) tell(evicted []eviction[K, V]) {
	defer func() {
		if len(evicted) > 0 {
			c.tell(evicted)
		}
	}()
	for len(evicted) > 0 {
		v := evicted[0]
		evicted = evicted[1:]
		c.cfg.OnEvict(v.e.key, v.e.value, v.why)
	}
}

// startSweeping starts the timer of Config.Sweep. It holds the Cache by a weak
// pointer, so that a Cache without users is collected, closed or not.
func (c *Cache[K, V]) startSweeping() {
	every, this := c.cfg.Sweep, weak.Make(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweeper = time.AfterFunc(every, func() {
		if c := this.Value(); c != nil {
			c.sweep()
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.closed {
				c.sweeper.Reset(every)
			}
		}
	})
}

// batch is how many entries a sweep removes before it gives way to others.
const batch = 256

// sweep removes the dead entries, which it finds as lookups do, without the lock.
func (c *Cache[K, V]) sweep() {
	now := c.now()
	var dead []*entry[K, V]
	for e := range c.table.Load().each {
		if c.dead(e, now) {
			dead = append(dead, e)
		}
	}
	for some := range slices.Chunk(dead, batch) {
		c.mu.Lock()
		for _, e := range some {
			if c.table.Load().find(e.hash, e.key) == e {
				c.remove(e, Expired)
			}
		}
		c.shrink()
		c.unlock()
	}
}

// GetAll returns the values of several keys. It calls fill once, behind
// Config.Limiter, with those keys that have no fresh value, and keeps the values
// that fill returns. Keys that fill leaves out are left out of the result too.
//
// Unlike that of Get, fill has the caller's own context, bounded by
// Config.Timeout. It is not shared with other callers, and its error is not
// kept. PerKey is not asked. If fill fails, old values are returned where
// Refresh allows it; if that is not enough, GetAll returns the error, and the
// values it has. An error that is kept for a key, by Get, is returned likewise.
func (c *Cache[K, V]) GetAll(ctx context.Context, keys []K, fill func(context.Context, []K) (map[K]V, error)) (map[K]V, error) {
	values := make(map[K]V, len(keys))
	missing := make(map[K]*entry[K, V]) // with the old entry, or nil
	var order []K
	var failed error
	now := c.now()
	for _, key := range keys {
		if _, ok := missing[key]; ok {
			continue
		}
		e := c.table.Load().find(c.hash(key), key)
		if e == nil || !e.fresh(now) && e.faulty(now) == nil {
			missing[key] = e
			order = append(order, key)
		} else if v, _, err := c.kept(e, now); err == nil {
			values[key] = v
		} else {
			failed = err
		}
	}
	if len(order) == 0 {
		return values, failed
	}
	filled, err := c.fillAll(ctx, order, fill)
	now = c.now()
	for _, key := range order {
		v, ok := filled[key]
		e := missing[key]
		switch {
		case err == nil && ok:
			values[key] = v
			c.lookups.add(Filled)
			continue
		case err != nil && e != nil && e.err == nil && c.serves(e, now, err):
			values[key], _, _ = c.old(e, now)
			continue
		case err != nil:
			failed = err
		}
		c.lookups.add(Failed)
	}
	return values, failed
}

// fillAll calls fill and keeps its values, but for the keys that were set,
// deleted or filled by another call meanwhile.
func (c *Cache[K, V]) fillAll(ctx context.Context, keys []K, fill func(context.Context, []K) (map[K]V, error)) (values map[K]V, err error) {
	if c.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
	}
	c.mu.Lock()
	mark := c.mark(keys...)
	c.mu.Unlock()
	begun := c.now()
	err = errEnded
	defer func() { c.endAll(keys, mark, begun, values, err) }() // also after a panic
	return weir.DoValue(ctx, c.all, func(ctx context.Context) (map[K]V, error) {
		return fill(ctx, slices.Clone(keys)) // fill may change its keys
	})
}

// endAll keeps the values of a fill, and removes its marks, even if a function of Config
// panics.
func (c *Cache[K, V]) endAll(keys []K, mark uint64, begun int64, values map[K]V, err error) {
	took := c.now() - begun
	fresh := make([]*entry[K, V], len(keys))
	defer func() {
		c.mu.Lock()
		defer c.unlock()
		c.countError(err)
		for i, key := range keys {
			if c.unmark(key, mark) && fresh[i] != nil {
				c.store(c.table.Load().find(fresh[i].hash, key), fresh[i])
			}
		}
	}()
	if err != nil {
		return
	}
	for i, key := range keys {
		if v, ok := values[key]; ok {
			fresh[i] = c.entry(c.hash(key), key, v, nil, took)
		}
	}
}
