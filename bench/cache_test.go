package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	codehex "github.com/Code-Hex/go-generics-cache"
	"github.com/Code-Hex/go-generics-cache/policy/lru"
	"github.com/dgraph-io/ristretto/v2"
	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"github.com/weir-go/weir/cache"
)

// A cacheContender keeps up to a number of entries, each for ttl, or without an
// end if ttl is zero.
type cacheContender interface {
	set(key string, v int)
	get(key string) (int, bool)
	// load gets a value, and keeps one if there is none.
	load(ctx context.Context, key string) int
}

var cacheContenders = []struct {
	name string
	make func(b *testing.B, entries int, ttl time.Duration) cacheContender
}{
	{"weir", newWeirCache},
	{"otter", newOtter},
	{"ristretto", newRistretto},
	{"codehex", newCodehex},
	{"codehex-lru", newCodehexLRU},
	{"floor", newSyncMapCache},
}

// expensive is the call that a cache saves: it costs nothing here.
func expensive(context.Context, string) (int, error) { return 1, nil }

type weirCache struct{ *cache.Cache[string, int] }

func newWeirCache(_ *testing.B, entries int, ttl time.Duration) cacheContender {
	return weirCache{must(cache.New(cache.Config[string, int]{Entries: entries, TTL: ttl}))}
}

func (c weirCache) set(key string, v int) { c.Set(key, v) }

func (c weirCache) get(key string) (int, bool) {
	v, err := c.Get(context.Background(), key, expensive)
	return v, err == nil
}

func (c weirCache) load(ctx context.Context, key string) int {
	v, _ := c.Get(ctx, key, expensive)
	return v
}

type otterCache struct {
	*otter.Cache[string, int]
	loader otter.Loader[string, int]
}

func newOtter(_ *testing.B, entries int, ttl time.Duration) cacheContender {
	o := &otter.Options[string, int]{MaximumSize: entries}
	if ttl > 0 {
		o.ExpiryCalculator = otter.ExpiryWriting[string, int](ttl)
	}
	return otterCache{must(otter.New(o)), otter.LoaderFunc[string, int](expensive)}
}

func (c otterCache) set(key string, v int)      { c.Set(key, v) }
func (c otterCache) get(key string) (int, bool) { return c.GetIfPresent(key) }

func (c otterCache) load(ctx context.Context, key string) int {
	v, _ := c.Get(ctx, key, c.loader)
	return v
}

// coalesced is a cache with x/sync's singleflight beside it.
type coalesced struct {
	group singleflight.Group
	set   func(string, int)
	get   func(string) (int, bool)
}

func (c *coalesced) load(ctx context.Context, key string) int {
	if v, ok := c.get(key); ok {
		return v
	}
	v, _, _ := c.group.Do(key, func() (any, error) {
		v, err := expensive(ctx, key)
		c.set(key, v)
		return v, err
	})
	return v.(int)
}

type ristrettoCache struct {
	*ristretto.Cache[string, int]
	ttl time.Duration
	coalesced
}

func newRistretto(b *testing.B, entries int, ttl time.Duration) cacheContender {
	c := &ristrettoCache{ttl: ttl, Cache: must(ristretto.NewCache(&ristretto.Config[string, int]{
		NumCounters: int64(10 * entries), MaxCost: int64(entries), BufferItems: 64, IgnoreInternalCost: true,
	}))}
	b.Cleanup(c.Close)
	c.coalesced.set, c.coalesced.get = c.set, c.get
	return c
}

func (c *ristrettoCache) set(key string, v int)      { c.SetWithTTL(key, v, 1, c.ttl) }
func (c *ristrettoCache) get(key string) (int, bool) { return c.Get(key) }

type codehexCache struct {
	*codehex.Cache[string, int]
	options []codehex.ItemOption
	coalesced
}

func makeCodehex(b *testing.B, ttl time.Duration, o ...codehex.Option[string, int]) cacheContender {
	ctx, cancel := context.WithCancel(context.Background()) // of the goroutine that it starts
	b.Cleanup(cancel)
	c := &codehexCache{Cache: codehex.NewContext(ctx, o...)}
	if ttl > 0 {
		c.options = append(c.options, codehex.WithExpiration(ttl))
	}
	c.coalesced.set, c.coalesced.get = c.set, c.get
	return c
}

// newCodehex returns the cache that the article of examples/expensive uses. It
// has no bound.
func newCodehex(b *testing.B, _ int, ttl time.Duration) cacheContender { return makeCodehex(b, ttl) }

func newCodehexLRU(b *testing.B, entries int, ttl time.Duration) cacheContender {
	return makeCodehex(b, ttl, codehex.AsLRU[string, int](lru.WithCapacity(entries)))
}

func (c *codehexCache) set(key string, v int)      { c.Set(key, v, c.options...) }
func (c *codehexCache) get(key string) (int, bool) { return c.Get(key) }

// syncMapCache has neither a bound nor a TTL: what a lookup alone costs.
type syncMapCache struct{ sync.Map }

func newSyncMapCache(*testing.B, int, time.Duration) cacheContender { return new(syncMapCache) }

func (c *syncMapCache) set(key string, v int) { c.Store(key, v) }

func (c *syncMapCache) get(key string) (int, bool) {
	v, ok := c.Load(key)
	if !ok {
		return 0, false
	}
	return v.(int), true
}

func (c *syncMapCache) load(context.Context, string) int { panic("not a cache") }

// BenchmarkCacheHit gets values that are there, in shuffled order, by keys of
// 17 bytes; of one key, of as many as the processor's caches hold, and of more.
func BenchmarkCacheHit(b *testing.B) {
	for _, keys := range []int{1, 10_000, 1_000_000} {
		names := make([]string, keys)
		for i, j := range rand.Perm(keys) {
			names[i] = fmt.Sprintf("user:%012d", j)
		}
		for _, ttl := range []time.Duration{0, time.Hour} {
			for _, contender := range cacheContenders {
				c := sync.OnceValue(func() cacheContender { return filled(contender.make(b, 2*keys, ttl), names) })
				b.Run(fmt.Sprintf("%d-keys/ttl=%v/%s", keys, ttl, contender.name), func(b *testing.B) {
					benchmarkHit(b, c(), names)
				})
			}
		}
	}
}

func filled(c cacheContender, names []string) cacheContender {
	for i, name := range names {
		c.set(name, i)
	}
	return c
}

func benchmarkHit(b *testing.B, c cacheContender, names []string) {
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(len(names)); pb.Next(); i++ {
			if i >= len(names) {
				i = 0
			}
			c.get(names[i])
		}
	})
}

// BenchmarkCacheMiss loads keys, ten times as many as fit, from a call that
// costs nothing.
func BenchmarkCacheMiss(b *testing.B) {
	const entries = 10_000
	names := make([]string, 10*entries)
	for i, j := range rand.Perm(len(names)) {
		names[i] = fmt.Sprintf("user:%012d", j)
	}
	for _, contender := range cacheContenders {
		if contender.name == "floor" || contender.name == "codehex" { // they have no bound, so no misses
			continue
		}
		b.Run(contender.name, func(b *testing.B) {
			c := contender.make(b, entries, time.Hour)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for i := rand.IntN(len(names)); pb.Next(); i++ {
					if i >= len(names) {
						i = 0
					}
					c.load(ctx, names[i])
				}
			})
		})
	}
}
