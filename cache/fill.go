package cache

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir"
)

// miss answers a lookup that found no entry, or one that may be refreshed.
func (c *Cache[K, V]) miss(ctx context.Context, hash uint64, key K, e *entry[K, V], now int64,
	fill func(context.Context, K) (V, error)) (V, Status, error) {
	due := false // for a refresh
	switch {
	case e == nil, e.err != nil:
	case e.faulty(now) != nil:
		return c.kept(e, now)
	case now < e.until && !c.early(e, now):
		return c.old(e, now)
	case !e.within(c.cfg.Stale, now):
	case !e.refreshing.CompareAndSwap(false, true):
		return c.old(e, now)
	default:
		due = true
	}
	l := &lookup[K, V]{c: c, hash: hash, key: key, seen: e, fill: fill} // the first allocation
	if due {
		if c.cfg.Background > 0 && c.refresh(ctx, l) {
			return c.old(e, now)
		}
		defer e.refreshing.Store(false)
	}
	return l.wait(ctx)
}

// old returns the value that was found, fresh or not.
func (c *Cache[K, V]) old(e *entry[K, V], now int64) (V, Status, error) {
	s := Stale
	if e.fresh(now) {
		s = Hit
	}
	e.touch()
	c.lookups.add(s)
	return e.value, s, nil
}

// kept returns a fresh value, or a kept error, or an old value in its place.
func (c *Cache[K, V]) kept(e *entry[K, V], now int64) (v V, s Status, err error) {
	err = cmp.Or(e.err, e.faulty(now))
	if err == nil || e.err == nil && c.serves(e, now, err) {
		return c.old(e, now)
	}
	e.touch()
	c.lookups.add(Hit)
	return v, Hit, err
}

// A lookup is one call of Get that found no fresh value.
type lookup[K comparable, V any] struct {
	c    *Cache[K, V]
	hash uint64
	key  K
	seen *entry[K, V] // the entry it found, or nil
	fill func(context.Context, K) (V, error)
	ran  bool // its own fill ran; read only after the end of the run

	// holds counts the goroutine and the fill of a background refresh while they
	// run. The mutex guards it.
	holds int
}

// wait returns a new value, or an old one in place of an error.
func (l *lookup[K, V]) wait(ctx context.Context) (V, Status, error) {
	c := l.c
	v, coalesced, err := c.runs.Load().Do(ctx, l.key, l.run)
	s := Hit
	switch {
	case err != nil:
		// The entry may have been deleted or replaced since.
		now := c.now()
		if e := c.table.Load().find(l.hash, l.key); e != nil && e.err == nil && c.serves(e, now, err) {
			return c.old(e, now)
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

// run is the work that concurrent lookups of a key share.
func (l *lookup[K, V]) run(ctx context.Context) (v V, err error) {
	c := l.c
	begun := c.now()
	mark, e, err := c.begin(ctx, l, begun)
	if err != nil {
		return v, err
	}
	if e != nil {
		return e.value, e.err
	}
	var fresh *entry[K, V]
	failed := errEnded
	defer func() { c.end(l, mark, fresh, failed) }() // also after a panic or runtime.Goexit
	v, err = weir.DoValue(ctx, c.limiter(l.key), func(ctx context.Context) (V, error) {
		l.ran = true
		return l.fill(ctx, l.key)
	})
	if err == nil || l.keeps(ctx, err) {
		fresh = c.entry(l.hash, l.key, v, err, c.now()-begun)
	}
	failed = err
	return v, err
}

// keeps reports whether the error of a fill may be kept: not after a cancellation.
func (l *lookup[K, V]) keeps(ctx context.Context, err error) bool {
	return l.ran && l.c.cfg.ErrorTTL > 0 && !errors.Is(err, weir.ErrRejected) &&
		ctx.Err() != context.Canceled && !errors.Is(err, context.Canceled)
}

// errEnded is the error of a fill that did not return.
var errEnded = errors.New("cache: the fill did not return")

// begin marks a key as being filled. If another run has ended since the lookup, it
// returns the entry of that run; if no caller waits any more, an error.
func (c *Cache[K, V]) begin(ctx context.Context, l *lookup[K, V], now int64) (mark uint64, e *entry[K, V], err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	if e := c.table.Load().find(l.hash, l.key); e != nil {
		if err := e.faulty(now); err != nil {
			return 0, nil, err
		}
		if e != l.seen && e.fresh(now) {
			return 0, e, nil
		}
	}
	if l.holds > 0 {
		l.holds++
	}
	return c.mark(l.key), nil, nil
}

// mark counts a fill, and marks its keys with its number. The mutex is held.
func (c *Cache[K, V]) mark(keys ...K) uint64 {
	c.stats.Fills++
	for _, key := range keys {
		if itself := key == key; itself { // the map could not delete NaN
			c.filling[key] = c.stats.Fills
		}
	}
	return c.stats.Fills
}

// unmark ends a mark. It returns false if the key was set, deleted or marked again
// meanwhile: then nothing is kept. The mutex is held.
func (c *Cache[K, V]) unmark(key K, mark uint64) bool {
	marked := c.filling[key] == mark
	if marked {
		delete(c.filling, key)
	}
	return marked
}

// limiter returns the limiter of the fills of a key.
func (c *Cache[K, V]) limiter(key K) weir.Limiter {
	if c.cfg.PerKey == nil {
		return c.all
	}
	return weir.Chain(c.cfg.PerKey(key), c.cfg.Limiter)
}

// end keeps the value or the error of a run, an error beside a value that is still useful.
func (c *Cache[K, V]) end(l *lookup[K, V], mark uint64, fresh *entry[K, V], failed error) {
	c.mu.Lock()
	defer c.unlock()
	c.release(l)
	c.countError(failed)
	if !c.unmark(l.key, mark) {
		return
	}
	old := c.table.Load().find(l.hash, l.key)
	switch {
	case failed != nil && fresh == nil:
	case failed != nil && old != nil && c.useful(old, c.now()):
		old.fault.Store(&fault{failed, fresh.until})
	default:
		c.store(old, fresh)
	}
}

// countError counts the error of a fill, if there is one. The mutex is held.
func (c *Cache[K, V]) countError(err error) {
	switch {
	case err == nil:
	case errors.Is(err, weir.ErrRejected):
		c.stats.Rejected++
	default:
		c.stats.Errors++
	}
}

// forget makes sure that the result of a run is not kept, and that later lookups do
// not wait for it, even if its fill is not marked yet. The mutex is held.
func (c *Cache[K, V]) forget(key K) {
	delete(c.filling, key)
	c.runs.Load().Forget(key)
}

// release counts the end of the goroutine of a refresh, or of its fill. The mutex
// is held.
func (c *Cache[K, V]) release(l *lookup[K, V]) {
	if l.holds == 0 {
		return
	}
	if l.holds--; l.holds == 0 {
		c.refreshes--
		c.group.Done()
	}
}

// patience is how long a background refresh may continue after its old value has
// become too old: a fill that hangs must not block its key for ever.
const patience = time.Minute

// refresh does the lookup on a new goroutine. It returns false if the caller must
// do it; then the entry stays marked as being refreshed.
func (c *Cache[K, V]) refresh(ctx context.Context, l *lookup[K, V]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.refreshes == c.cfg.Background {
		l.seen.refreshing.Store(false) // a later caller tries
		return true
	}
	c.refreshes++
	c.group.Add(1)
	l.holds = 1
	left := later(later(l.seen.until, c.cfg.Stale), patience) - c.now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(left))
	stop := context.AfterFunc(c.closing, cancel)
	go func() {
		defer func() {
			stop()
			cancel()
			l.seen.refreshing.Store(false)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.release(l)
		}()
		c.runs.Load().Do(ctx, l.key, l.run) // Stats count its failure, and the old value stays
	}()
	return true
}
