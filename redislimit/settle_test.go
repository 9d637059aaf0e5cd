//go:build system

package redislimit_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
)

var histories = flag.Int("histories", 500, "random histories of TestSettlementsAreExact, for each engine")

// A taken is a take that an oracle knows; n changes when it is settled.
type taken struct {
	at     time.Duration
	was, n int
}

// A ledger has a token bucket in a server, and what an oracle knows of it.
type ledger struct {
	storedBucket
	t     *testing.T
	burst int
	rate  float64 // tokens a nanosecond
	takes []taken
	open  []int // that are not settled
}

// oracle returns what a bucket lacks at an instant from which only the costs were taken.
func (l *ledger) oracle(now time.Duration) (missing float64) {
	at := time.Duration(0)
	for _, t := range l.takes {
		missing = max(missing-float64(t.at-at)*l.rate, 0) + float64(t.n)
		at = t.at
	}
	return max(missing-float64(now-at)*l.rate, 0)
}

func (l *ledger) take(n int) {
	if r, d := l.ask(l.t, redisscript.Take{N: n, Least: n, Most: time.Hour, Settled: true}); d.OK {
		l.open = append(l.open, len(l.takes))
		l.takes = append(l.takes, taken{r.Time, n, n})
	}
}

// settle settles a take with a cost of at most what was taken.
func (l *ledger) settle(chance *rand.Rand) {
	i := chance.IntN(len(l.open))
	t := &l.takes[l.open[i]]
	l.open = append(l.open[:i], l.open[i+1:]...)
	if t.n = chance.IntN(t.was); chance.IntN(4) == 0 {
		t.n = 0
	}
	r, d := l.ask(l.t, redisscript.Take{N: t.n - t.was, Taken: t.at.Truncate(time.Millisecond), Remain: t.n, Most: time.Hour})
	missing := float64(d.ResetAfter) * l.rate
	bound := max(float64(l.burst)/16, l.rate*1e6) + l.rate*1e6
	less, rounding := missing-l.oracle(r.Time), l.rate*2000+1e-6
	if r.Taken(0) != t.n-t.was || less < -rounding || less > bound+rounding {
		l.t.Errorf("burst %d, %v tokens a second: %d of %d settled, %d given back, %v tokens less than the oracle has, want 0 to %v\n%v", l.burst, l.rate*1e9, t.n, t.was, -r.Taken(0), less, bound, l.takes)
	}
}

// After a settlement, a bucket is as one from which only the true cost was taken at the instant of
// the grant: it never has more tokens, and fewer by a 16th of the burst and the refill of a
// millisecond at most.
func TestSettlementsAreExact(t *testing.T) {
	for _, engine := range redistest.Engines {
		t.Run(engine, func(t *testing.T) {
			rdb := client(t, redistest.Start(t, engine))
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			var all sync.WaitGroup
			const together = 50
			for worker := range together {
				all.Go(func() {
					for i := worker; i < *histories; i += together {
						history(t, rdb, fmt.Sprint("key ", i), rand.New(rand.NewPCG(seed, uint64(i))))
					}
				})
			}
			all.Wait()
		})
	}
}

func history(t *testing.T, rdb *redis.Client, key string, chance *rand.Rand) {
	burst := 2 + chance.IntN(1000)
	fill := time.Duration(10+chance.IntN(200)) * time.Millisecond
	q := gcra.Per(burst, fill, burst)
	l := &ledger{storedBucket: storedBucket{rdb: rdb, key: key, q: tokensOf(t, q)}, t: t, burst: burst, rate: q.Rate() / 1e9}
	largest := 1 + chance.IntN(burst)
	for range 20 {
		if chance.IntN(2) == 0 {
			time.Sleep(time.Duration(chance.ExpFloat64() * float64(fill) / 8))
		}
		if len(l.open) == 0 || chance.IntN(3) > 0 {
			l.take(1 + chance.IntN(largest))
		} else {
			l.settle(chance)
		}
	}
}

// The examples of a partial settlement, ten times as fast.
func TestPartialSettlements(t *testing.T) {
	for _, engine := range redistest.Engines {
		l := limiter(t, client(t, redistest.Start(t, engine)), gcra.Per(700, 6*time.Second, 700), patient)
		for _, tt := range []struct {
			calls, was, n int
			after         time.Duration
			left          int
		}{
			{1, 200, 80, 400 * time.Millisecond, 666},
			{1, 200, 80, 1200 * time.Millisecond, 700},
			{7, 100, 20, 1500 * time.Millisecond, 700},
		} {
			t.Run(fmt.Sprintf("%s, %d times %d after %v", engine, tt.calls, tt.was, tt.after), func(t *testing.T) {
				key := t.Name()
				var used sync.WaitGroup
				for i := range tt.calls {
					if i%2 == 0 {
						v, err := l.Decide(t.Context(), key, tt.was)
						if err != nil || !v.OK {
							t.Fatalf("%+v, %v", v.Decision, err)
						}
						used.Go(func() { time.Sleep(tt.after); v.Permit.Use(tt.n) })
						continue
					}
					p, err := l.For(key).Acquire(t.Context(), tt.was)
					if err != nil {
						t.Fatal(err)
					}
					used.Go(func() { time.Sleep(tt.after); p.Use(tt.n) })
				}
				used.Wait()
				if d := take(t, l, key, 0); d.Remaining < tt.left { // time goes on
					t.Errorf("%d left, want %d or more", d.Remaining, tt.left)
				}
			})
		}
	}
}
