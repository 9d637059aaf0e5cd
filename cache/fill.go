package cache

import (
	"context"
	"errors"

	"github.com/weir-go/weir"
)

// miss answers a lookup that found no entry, or one that may be refreshed.
func (c *Cache[K, V]) miss(ctx context.Context, hash uint64, key K, e *entry[K, V],
	fill func(context.Context, K) (V, error)) (V, Status, error) {
	l := &lookup[K, V]{c: c, hash: hash, key: key, seen: e, fill: fill}
	now := c.now()
	switch {
	case e == nil, e.err != nil:
		return l.wait(ctx)
	case now < e.retry.Load() && c.serves(e, now, nil), now < e.until && !c.early(e, now):
		return l.old(now)
	case e.age(now) >= int64(c.cfg.Stale):
		return l.wait(ctx)
	case !e.refreshing.CompareAndSwap(false, true):
		return l.old(now)
	case c.refresh(ctx, l):
		return l.old(now)
	}
	defer e.refreshing.Store(false)
	return l.wait(ctx)
}

// A lookup is one call of Get that needs more than a fresh value.
type lookup[K comparable, V any] struct {
	c    *Cache[K, V]
	hash uint64
	key  K
	seen *entry[K, V] // what it found, or nil
	fill func(context.Context, K) (V, error)
	ran  bool // its own fill did; read only once the run has ended
}

// old returns what was found, whether fresh or not.
func (l *lookup[K, V]) old(now int64) (V, Status, error) {
	s := Stale
	if l.seen.fresh(now) {
		s = Hit
	}
	l.seen.touch()
	l.c.lookups.add(s)
	return l.seen.value, s, nil
}

// wait gets a new value, or an old one in place of an error.
func (l *lookup[K, V]) wait(ctx context.Context) (V, Status, error) {
	c := l.c
	v, coalesced, err := c.runs.Do(ctx, l.key, l.run)
	s := Hit
	switch {
	case err != nil:
		// What was found may have been deleted since, or something been set.
		now := c.now()
		if e := c.table.Load().find(l.hash, l.key); e != nil && e.err == nil && c.serves(e, now, err) {
			l.seen = e
			return l.old(now)
		}
		s = Failed
	case coalesced:
		s = Coalesced
	case l.ran:
		s = Filled
	}
	c.lookups.add(s)
	return v, s, err
}

// run is the work that those who look up a key at the same time share.
func (l *lookup[K, V]) run(ctx context.Context) (v V, err error) {
	c := l.c
	begun := c.now()
	mark, e := c.begin(l, begun)
	if e != nil {
		return e.value, e.err
	}
	l.ran = true
	var fresh *entry[K, V]
	failed := errEnded
	defer func() { c.end(l, mark, fresh, failed) }() // also after a panic, or if fill ends its goroutine
	v, err = c.admit(ctx, l)
	if err == nil {
		fresh = c.entry(l.hash, l.key, v, c.now()-begun)
	}
	failed = err
	return v, err
}

// errEnded is the error of a fill that did not return.
var errEnded = errors.New("cache: the fill did not return")

// begin marks a key as being filled. If another run has ended between the
// lookup and now, it returns what that has left instead.
func (c *Cache[K, V]) begin(l *lookup[K, V], now int64) (mark uint64, e *entry[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.table.Load().find(l.hash, l.key); e != nil && e != l.seen && e.fresh(now) {
		return 0, e
	}
	c.policy.missed(l.hash)
	c.stats.Fills++
	c.filling[l.key] = c.stats.Fills
	return c.stats.Fills, nil
}

// admit runs fill behind the limiters.
func (c *Cache[K, V]) admit(ctx context.Context, l *lookup[K, V]) (v V, err error) {
	lim := c.cfg.Limiter
	if c.cfg.PerKey != nil {
		if one := c.cfg.PerKey(l.key); one != nil && lim != nil {
			lim = weir.Chain(one, lim)
		} else if one != nil {
			lim = one
		}
	}
	if lim == nil {
		return l.fill(ctx, l.key)
	}
	err = weir.Do(ctx, lim, func(ctx context.Context) error {
		v, err = l.fill(ctx, l.key)
		return err
	})
	return v, err
}

// end keeps what a run has brought: an entry; or, in place of an old one that
// may no longer be served, an error. Nothing if the key was set or deleted
// meanwhile.
func (c *Cache[K, V]) end(l *lookup[K, V], mark uint64, fresh *entry[K, V], failed error) {
	now := c.now()
	keep := failed != nil && failed != errEnded && c.cfg.keeps(failed)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case failed == nil:
	case errors.Is(failed, weir.ErrRejected):
		c.stats.Rejected++
	default:
		c.stats.Errors++
	}
	if c.filling[l.key] != mark {
		return
	}
	delete(c.filling, l.key)
	old := c.table.Load().find(l.hash, l.key)
	switch {
	case failed == nil:
		c.store(old, fresh)
	case !keep:
	case old != nil && old.err == nil && c.serves(old, now, failed):
		old.retry.Store(later(now, c.cfg.ErrorTTL))
	default:
		until := later(now, c.cfg.ErrorTTL)
		e := &entry[K, V]{key: l.key, err: failed, early: until, until: until}
		e.hash, e.cost = l.hash, c.cost(l.key, e.value, failed)
		c.store(old, e)
	}
}

// forget makes sure that the result of a run is not kept, and that the next
// lookup does not wait for it. The mutex is held.
func (c *Cache[K, V]) forget(key K) {
	if _, ok := c.filling[key]; ok {
		delete(c.filling, key)
		c.runs.Forget(key)
	}
}

// refresh has a goroutine do the lookup. It returns false if the caller must
// do it, and what is due is still marked as his.
func (c *Cache[K, V]) refresh(ctx context.Context, l *lookup[K, V]) bool {
	if !c.cfg.Background {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.refreshes == c.cfg.Refreshes {
		l.seen.refreshing.Store(false) // a later caller tries
		return true
	}
	c.refreshes++
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.closing, cancel)
	c.group.Go(func() {
		defer func() {
			stop()
			cancel()
			l.seen.refreshing.Store(false)
			c.mu.Lock()
			c.refreshes--
			c.mu.Unlock()
		}()
		c.runs.Do(ctx, l.key, l.run) // its failure is in the Stats, and the old value remains
	})
	return true
}
