package cache_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
)

// A lookup that begins after a Set or a Delete has returned never sees anything
// older, not even in place of an error; the bounds hold all the time; every
// lookup is counted once; and no goroutine is left (the bubble would not end).
func TestStorm(t *testing.T) {
	const keys, workers, steps = 32, 16, 1500
	type version struct {
		mu      sync.Mutex // of a writer
		current atomic.Int64
		known   atomic.Int64 // the last one that the cache was told of
	}
	cost := func(key int, v int64) int64 { return int64(key) }
	for name, cfg := range map[string]cache.Config[int, int64]{
		"all fit":      {},
		"foreground":   {Entries: 28, TTL: 20, Refresh: cache.Refresh{Stale: time.Hour, StaleIfError: time.Hour, StaleIfRejected: time.Hour, Early: 1}},
		"background":   {Entries: 28, TTL: 20, Refresh: cache.Refresh{Stale: time.Hour, Background: 3, ErrorTTL: 5}},
		"kept errors":  {Entries: 20, TTL: 20, Refresh: cache.Refresh{StaleIfError: 20, ErrorTTL: 5, Jitter: 0.5, Timeout: 8}},
		"by cost":      {Bytes: 3000, Cost: cost},
		"some refused": {Entries: 10, TTL: 20, Refresh: cache.Refresh{StaleIfRejected: time.Hour, Limiter: atOnce(1, 3*time.Nanosecond, 5)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if cfg.Limiter != nil {
					cfg.Limiter = atOnce(1, 3*time.Nanosecond, 5) // of this bubble
				}
				c := newCache(t, cfg)
				var versions [keys]version
				var lookups atomic.Uint64
				fill := func(ctx context.Context, key int) (int64, error) {
					v := versions[key].current.Load()
					switch rand.IntN(8) {
					case 0:
						return 0, errDown
					case 1, 2, 3:
						time.Sleep(time.Duration(rand.IntN(20)))
					case 4:
						return 0, weir.Reject(weir.OverLimit, 0)
					}
					return v, ctx.Err()
				}
				look := func(key int) {
					ctx, cancel := context.Background(), context.CancelFunc(func() {})
					if rand.IntN(3) == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(15)))
					}
					defer cancel()
					known := versions[key].known.Load()
					v, s, err := c.Lookup(ctx, key, fill)
					lookups.Add(1)
					switch {
					case err == nil && v < known:
						t.Errorf("%v %d, after the cache was told of %d", s, v, known)
					case err == nil, errors.Is(err, errDown), errors.Is(err, weir.ErrRejected), errors.Is(err, context.DeadlineExceeded):
					default:
						t.Errorf("%v: %v", s, err)
					}
				}
				write := func(key int) {
					v := &versions[key]
					v.mu.Lock()
					defer v.mu.Unlock()
					n := v.current.Add(1)
					if rand.IntN(2) == 0 {
						c.Set(key, n)
					} else {
						c.Delete(key)
					}
					v.known.Store(n)
				}
				var wg sync.WaitGroup
				for range workers {
					wg.Go(func() {
						for range steps {
							key := rand.IntN(keys)
							switch rand.IntN(20) {
							case 0, 1, 2:
								write(key)
							case 3:
								known := versions[key].known.Load()
								if v, ok := c.Peek(key); ok && v < known {
									t.Errorf("Peek: %d, after %d", v, known)
								}
							case 4:
								for range c.All() {
								}
							case 5:
								if s := c.Stats(); cfg.Entries > 0 && s.Entries > cfg.Entries || cfg.Bytes > 0 && s.Bytes > cfg.Bytes {
									t.Errorf("%+v: beyond the bound", s)
								}
								if rand.IntN(20) == 0 {
									c.Purge()
								}
							case 6:
								time.Sleep(time.Duration(rand.IntN(20)))
							default:
								look(key)
							}
						}
					})
				}
				wg.Wait()
				c.Close()
				time.Sleep(time.Second) // for abandoned fills
				synctest.Wait()
				s := c.Stats()
				if n := s.Lookups[cache.Hit] + s.Lookups[cache.Stale] + s.Lookups[cache.Filled] + s.Lookups[cache.Coalesced] + s.Lookups[cache.Failed]; n != lookups.Load() {
					t.Errorf("%+v: %d lookups were counted as %d", s, lookups.Load(), n)
				}
				if s.Lookups[cache.Hit] == 0 || s.Fills == 0 || cfg.Background > 0 && s.Lookups[cache.Stale] == 0 {
					t.Errorf("%+v: that was no storm", s)
				}
				if cfg.Bytes > 0 {
					if want := bytesOf(c, cost); s.Bytes != want {
						t.Errorf("%+v: the entries take %d", s, want)
					}
				}
			})
		})
	}
}

// While the cache grows, concurrent readers find all values that stay in it.
func TestReadersDuringGrowth(t *testing.T) {
	c := newCache(t, cache.Config[int, int]{Entries: 1 << 20})
	const constant = 64
	for i := range constant {
		c.Set(-i, i)
	}
	var grown atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !grown.Load() {
				for i := range constant {
					if v, ok := c.Peek(-i); !ok || v != i {
						t.Errorf("%d: %d, %v", -i, v, ok)
						return
					}
				}
			}
		})
	}
	for i := 1; i < 50_000; i++ {
		c.Set(i, i)
		if i%3 == 0 {
			c.Delete(i - 1)
		}
	}
	grown.Store(true)
	wg.Wait()
	if want, n := constant+49_999-16_666, c.Stats().Entries; n != want {
		t.Errorf("%d entries: want %d", n, want)
	}
}
