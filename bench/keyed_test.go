package bench

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/didip/tollbooth/v8"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	xrate "golang.org/x/time/rate"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

// A keyedContender has a bucket for every key.
type keyedContender interface{ allow(key string) bool }

// keyedContenders allow, for each key, a burst and then one event in every
// interval. One that is an io.Closer is closed after use.
var keyedContenders = []struct {
	name string
	make func(every time.Duration, burst int) keyedContender
}{
	{"weir", newWeirKeyed},
	{"syncmap-xtime", newSyncMap},
	{"mutexmap-xtime", newMutexMap},
	{"shard64", newShards},
	{"throttled", newThrottledStore},
	{"go-limiter", newGoLimiter},
	{"tollbooth", newTollbooth},
}

// allowFunc is the keyedContender of a function.
type allowFunc func(key string) bool

func (f allowFunc) allow(key string) bool { return f(key) }

// must is for constructors that cannot fail here.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type weirKeyed struct{ *keyed.Limiter[string] }

func newWeirKeyed(every time.Duration, burst int) keyedContender {
	return weirKeyed{must(keyed.New[string](gcra.Per(1, every, burst), keyed.Config{}))}
}

func (w weirKeyed) allow(key string) bool { return w.Allow(key) }

// syncMap is the obvious way: a limiter for each key, in a sync.Map.
type syncMap struct {
	limiters sync.Map
	limit    xrate.Limit
	burst    int
}

func newSyncMap(every time.Duration, burst int) keyedContender {
	return &syncMap{limit: xrate.Every(every), burst: burst}
}

func (m *syncMap) allow(key string) bool {
	l, ok := m.limiters.Load(key)
	if !ok {
		l, _ = m.limiters.LoadOrStore(key, xrate.NewLimiter(m.limit, m.burst))
	}
	return l.(*xrate.Limiter).Allow()
}

// mutexMap is the other obvious way.
type mutexMap struct {
	mu       sync.Mutex
	limiters map[string]*xrate.Limiter
	limit    xrate.Limit
	burst    int
}

func newMutexMap(every time.Duration, burst int) keyedContender {
	return &mutexMap{limiters: map[string]*xrate.Limiter{}, limit: xrate.Every(every), burst: burst}
}

func (m *mutexMap) allow(key string) bool {
	m.mu.Lock()
	l := m.limiters[key]
	if l == nil {
		l = xrate.NewLimiter(m.limit, m.burst)
		m.limiters[key] = l
	}
	m.mu.Unlock()
	return l.Allow()
}

// shards is the hand-written alternative: the theoretical arrival time of each key
// in sharded maps, each with a mutex.
type shards struct {
	seed            maphash.Seed
	epoch           time.Time
	interval, burst int64
	shard           [64]struct {
		mu   sync.Mutex
		tats map[string]int64
		_    [48]byte // one cache line each
	}
}

func newShards(every time.Duration, burst int) keyedContender {
	s := &shards{
		seed: maphash.MakeSeed(), epoch: time.Now(),
		interval: int64(every), burst: int64(every) * int64(burst),
	}
	for i := range s.shard {
		s.shard[i].tats = map[string]int64{}
	}
	return s
}

func (s *shards) allow(key string) bool {
	now := int64(time.Since(s.epoch))
	sh := &s.shard[maphash.String(s.seed, key)%64]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	next := max(sh.tats[key], now) + s.interval
	if next-now > s.burst {
		return false
	}
	sh.tats[key] = next
	return true
}

func newThrottledStore(every time.Duration, burst int) keyedContender {
	l := newThrottled(every, burst)
	return allowFunc(func(key string) bool {
		limited, _, err := l.RateLimitCtx(context.Background(), key, 1)
		return !limited && err == nil
	})
}

// goLimiter has a window in which the whole burst is refilled.
type goLimiter struct{ s golimiter.Store }

func newGoLimiter(every time.Duration, burst int) keyedContender {
	return goLimiter{must(memorystore.New(&memorystore.Config{
		Tokens: uint64(burst), Interval: every * time.Duration(burst),
	}))}
}

func (g goLimiter) allow(key string) bool {
	_, _, _, ok, err := g.s.Take(context.Background(), key)
	return ok && err == nil
}

func (g goLimiter) Close() error { return g.s.Close(context.Background()) }

func newTollbooth(every time.Duration, burst int) keyedContender {
	l := tollbooth.NewLimiter(float64(xrate.Every(every)), nil).SetBurst(burst)
	return allowFunc(func(key string) bool { return !l.LimitReached(key) })
}

const manyKeys = 1_000_000

// shuffled returns manyKeys keys of 20 bytes in random order. They lie behind
// one another in memory, so a loop over them reads keys as cheaply as from a
// network buffer, and touches the limiter's own memory at random places.
var shuffled = sync.OnceValue(func() []string {
	all := new(strings.Builder)
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(manyKeys) {
		fmt.Fprintf(all, "user-%015d", i)
	}
	keys := make([]string, manyKeys)
	for i := range keys {
		keys[i] = all.String()[20*i : 20*i+20]
	}
	return keys
})

// fill asks once for every key. The limiter gets copies, as from requests: to
// keep one costs memory, and none is equal to the keys asked for later by
// being in the same place.
func fill(b *testing.B, c keyedContender, keys []string) {
	for _, key := range keys {
		if !c.allow(strings.Clone(key)) {
			b.Fatal("denied")
		}
	}
}

func closeKeyed(b *testing.B, c keyedContender) {
	if c, ok := c.(io.Closer); ok {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkKeyed asks a limiter of a million live keys: for all of them at
// random, for a thousand, for one. All are allowed, and stay below their burst,
// so that no limiter may forget one.
func BenchmarkKeyed(b *testing.B) {
	keys := shuffled()
	for _, contender := range keyedContenders {
		var c keyedContender // made for the first case that runs
		for _, bb := range []struct {
			name string
			keys []string
		}{{"million", keys}, {"thousand", keys[:1000]}, {"one", keys[:1]}} {
			b.Run(bb.name+"/"+contender.name, func(b *testing.B) {
				if c == nil {
					c = contender.make(4*time.Second, 1e9) // 4e18 ns: just below what int64 holds
					fill(b, c, keys)
					runtime.GC()
				}
				var goroutines atomic.Uint32
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					// Far from the other goroutines.
					random := rand.New(rand.NewPCG(3, uint64(goroutines.Add(1))))
					i := random.IntN(len(bb.keys))
					for pb.Next() {
						if !c.allow(bb.keys[i]) {
							b.Error("denied")
							return
						}
						if i++; i == len(bb.keys) {
							i = 0
						}
					}
				})
			})
		}
		closeKeyed(b, c)
	}
}

// BenchmarkKeyedMemory reports the heap that a live key takes, its name
// included, where there are a million.
func BenchmarkKeyedMemory(b *testing.B) {
	keys := shuffled()
	for _, contender := range keyedContenders {
		b.Run(contender.name, func(b *testing.B) {
			var grown int64
			for range b.N {
				before := heap()
				c := contender.make(time.Hour, 100)
				fill(b, c, keys)
				grown += heap() - before
				closeKeyed(b, c)
			}
			b.ReportMetric(float64(grown)/float64(b.N)/manyKeys, "B/key")
			b.ReportMetric(0, "ns/op") // says nothing here
		})
	}
}

// heap returns the bytes in use, without garbage or what pools hold.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
