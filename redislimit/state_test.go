//go:build system

package redislimit_test

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
)

// windowOf returns the Quota of a window.
func windowOf(t testing.TB, k redisscript.WindowKind, limit int, period time.Duration) redisscript.Quota {
	t.Helper()
	q, err := redisscript.NewWindow(k, limit, period)
	testrig.Must(t, err)
	return q
}

// tokensOf returns the Quota of a token bucket.
func tokensOf(t testing.TB, q gcra.Quota) redisscript.Quota {
	t.Helper()
	sq, err := redisscript.NewQuota(q)
	testrig.Must(t, err)
	return sq
}

// ask asks for tokens of the key.
func (b *storedBucket) ask(t testing.TB, ask redisscript.Take) (redisscript.Reply, weir.Decision) {
	t.Helper()
	r := run(t, b.rdb, []string{b.key}, []*redisscript.Quota{&b.q}, []redisscript.Take{ask})
	return r, r.Decision(0, &b.q, &ask)
}

// What is left of the last window is exact for all counts and periods.
func TestFadingIsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1))
	magnitude := func(least, most float64) int64 {
		return int64(math.Exp2(math.Log2(least) + chance.Float64()*(math.Log2(most)-math.Log2(least))))
	}
	for _, engine := range redistest.Engines {
		rdb, ctx := client(t, redistest.Start(t, engine)), context.Background()
		for i := range 2000 {
			period := magnitude(1e6, 1<<50) // microseconds; short windows would end meanwhile
			if i%4 == 0 {
				period = []int64{1 << 50, 10 * 365 * 86400e6, 86400e6, 60e6}[i/4%4]
			}
			last := min(magnitude(1, 1<<43), 2*redisscript.MaxEvents)
			if i%5 == 0 {
				last = []int64{2 * redisscript.MaxEvents, math.MaxInt32, 1<<42 - 1, 1}[i/5%4]
			}
			if i%3 == 0 && period < 1<<40 { // nothing is left to round up
				last = period * (1 + chance.Int64N(8))
			}
			used := chance.Int64N(1000)
			b := storedBucket{rdb: rdb, key: "key", q: windowOf(t, redisscript.SlidingWindow, redisscript.MaxEvents, time.Duration(period)*time.Microsecond)}
			start := time.Now().UnixMicro() / period * period
			testrig.Must(t, rdb.Set(ctx, b.key, fmt.Sprintf("%d:%d:%d", start, used, last), 0).Err())
			r, _ := b.ask(t, redisscript.Take{N: math.MaxInt, Debt: redisscript.MaxEvents})
			elapsed := r.Time.Microseconds() - start
			if elapsed >= period {
				continue // the next window
			}
			left := new(big.Int).Mul(big.NewInt(last), big.NewInt(period-elapsed))
			left, rest := left.DivMod(left, big.NewInt(period), new(big.Int))
			counts := left.Int64() + used
			if rest.Sign() > 0 {
				counts++
			}
			if want := max(2*redisscript.MaxEvents-counts, 0); int64(r.Taken(0)) != want {
				t.Fatalf("%s: %d events of the last window of %d us, %d us ago: %d fit, want %d", engine, last, period, elapsed, r.Taken(0), want)
			}
		}
	}
}

// A key expires when its state makes no difference, and no sooner.
func TestStateExpires(t *testing.T) {
	const period = time.Hour
	for _, tt := range []struct {
		name   string
		kind   redisscript.WindowKind
		take   int
		stored string // the events of this window and of the last one; at is now, in multiples of the period
		ends   func(now time.Duration) time.Duration
	}{
		{"fixed", redisscript.FixedWindow, 1, "", func(now time.Duration) time.Duration { return now + period }},
		{"clock", redisscript.ClockWindow, 1, "", func(now time.Duration) time.Duration { return now.Truncate(period) + period }},
		{"clock, denied", redisscript.ClockWindow, 6, "", func(now time.Duration) time.Duration { return now.Truncate(period) + period }},
		{"sliding", redisscript.SlidingWindow, 1, "", func(now time.Duration) time.Duration { return now.Truncate(period) + 2*period }},
		{"sliding, given back", redisscript.SlidingWindow, -1, ":1:1", func(now time.Duration) time.Duration { return now.Truncate(period) + period }},
		{"sliding, all given back", redisscript.SlidingWindow, -1, ":1:0", nil},
		{"nothing to give back", redisscript.FixedWindow, -1, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rdb, ctx := client(t, redistest.Start(t, "redis-server")), context.Background()
			if tt.stored != "" {
				rdb.Set(ctx, "key", fmt.Sprint(time.Now().Truncate(period).UnixMicro(), tt.stored), time.Hour)
			}
			b := storedBucket{rdb: rdb, key: "key", q: windowOf(t, tt.kind, 5, period)}
			r, _ := b.ask(t, redisscript.Take{N: tt.take, Least: max(tt.take, 0)})
			at := rdb.PExpireTime(ctx, "key").Val()
			if tt.ends == nil {
				if at != -2 {
					t.Errorf("the key expires at %v, want none", at)
				}
				return
			}
			if ends := tt.ends(r.Time); at < ends || at > ends+20*time.Millisecond {
				t.Errorf("the key expires at %v, want %v", at, ends)
			}
		})
	}
}

// A state from a clock that was ahead counts, and is set to the most that can count, also by a
// call that is denied.
func TestStateFromAClockAhead(t *testing.T) {
	rdb, ctx := client(t, redistest.Start(t, "redis-server")), context.Background()
	const period = time.Hour
	for _, tt := range []struct {
		name   string
		q      redisscript.Quota
		state  func(now time.Time) string
		latest time.Duration // of the instant in the state, after a call
	}{
		{"tokens", tokensOf(t, gcra.Per(1, time.Second, 5)), func(now time.Time) string { return fmt.Sprint(now.Add(24 * time.Hour).UnixMicro()) }, 15 * time.Second},
		{"fixed", windowOf(t, redisscript.FixedWindow, 5, period), func(now time.Time) string { return fmt.Sprint(now.Add(24*time.Hour).UnixMicro(), ":5:0") }, period},
		{"clock", windowOf(t, redisscript.ClockWindow, 5, period), func(now time.Time) string {
			return fmt.Sprint(now.Truncate(period).Add(24*time.Hour).UnixMicro(), ":5:0")
		}, period},
		{"sliding", windowOf(t, redisscript.SlidingWindow, 5, period), func(now time.Time) string {
			return fmt.Sprint(now.Truncate(period).Add(24*time.Hour).UnixMicro(), ":2:3")
		}, period},
		{"sliding, a window ahead", windowOf(t, redisscript.SlidingWindow, 5, period), func(now time.Time) string {
			return fmt.Sprint(now.Truncate(period).Add(period).UnixMicro(), ":2:3")
		}, period},
	} {
		b := storedBucket{rdb: rdb, key: tt.name, q: tt.q}
		now := time.Now()
		rdb.Set(ctx, tt.name, tt.state(now), time.Hour)
		r, d := b.ask(t, redisscript.Take{N: 1, Least: 1, Most: 10 * time.Second})
		if d.OK || d.RetryAfter <= 0 || d.RetryAfter > 2*period || r.Used(0, &tt.q) < 5 {
			t.Errorf("%s: %+v, %d used: want a denial for at most two hours", tt.name, d, r.Used(0, &tt.q))
		}
		var at int64
		if state := rdb.Get(ctx, tt.name).Val(); state != "" {
			_, _ = fmt.Sscanf(state, "%d", &at)
		}
		if in := time.UnixMicro(at).Sub(now); in <= 0 || in > tt.latest+time.Second {
			t.Errorf("%s: the state is %v ahead, want at most %v", tt.name, in, tt.latest)
		}
	}
}

// Time that goes backwards neither frees nor takes anything: a window that is ahead counts as
// at its start.
func TestWindowAhead(t *testing.T) {
	rdb := client(t, redistest.Start(t, "redis-server"))
	b := storedBucket{rdb: rdb, key: "key", q: windowOf(t, redisscript.SlidingWindow, 6, time.Hour)}
	rdb.Set(context.Background(), "key", fmt.Sprint(time.Now().Truncate(time.Hour).Add(time.Hour).UnixMicro(), ":2:3"), time.Hour)
	for i, want := range []bool{true, false} {
		if _, d := b.ask(t, redisscript.Take{N: 1, Least: 1}); d.OK != want || d.Remaining != 0 {
			t.Errorf("event %d: %+v, want it to be the last", i, d)
		}
	}
}

// A ClockWindow counts what it denies, up to a bound.
func TestDeniedEventsAreBounded(t *testing.T) {
	rdb := client(t, redistest.Start(t, "redis-server"))
	b := storedBucket{rdb: rdb, key: "key", q: windowOf(t, redisscript.ClockWindow, 5, 365*24*time.Hour)}
	for _, tt := range []struct{ n, used int }{{3, 3}, {3, 6}, {1e6, 1e6 + 6}, {math.MaxInt, math.MaxInt32 + 5}, {1, math.MaxInt32 + 5}, {-math.MaxInt, 0}} {
		r, _ := b.ask(t, redisscript.Take{N: tt.n, Least: max(tt.n, 0)})
		if got := r.Used(0, &b.q); got != tt.used {
			t.Errorf("after %d more, %d are counted, want %d", tt.n, got, tt.used)
		}
	}
}

// A window of one event among the keys of a call lets the call have its effect once.
func TestOnce(t *testing.T) {
	for _, engine := range redistest.Engines {
		t.Run(engine, func(t *testing.T) {
			rdb := client(t, redistest.Start(t, engine))
			mark, tokens, window := windowOf(t, redisscript.FixedWindow, 1, time.Hour), tokensOf(t, gcra.Per(1, time.Hour, 10)), windowOf(t, redisscript.ClockWindow, 10, 24*365*time.Hour)
			quotas := []*redisscript.Quota{&mark, &tokens, &window}
			settle := func(id string, n int) redisscript.Reply {
				takes := []redisscript.Take{{N: 1, Least: 1}, {N: n, Debt: 10}, {N: n, Debt: 10}}
				return run(t, rdb, []string{id, "tokens", "window"}, quotas, takes)
			}
			for i, tt := range []struct {
				id      string
				n       int
				granted bool
				used    int
			}{{"a", 4, true, 4}, {"a", 4, false, 4}, {"b", 3, true, 7}, {"a", -4, false, 7}, {"c", -2, true, 5}, {"c", -2, false, 5}} {
				r := settle(tt.id, tt.n)
				if r.Granted != tt.granted || r.Used(1, &tokens) != tt.used || r.Used(2, &window) != tt.used {
					t.Errorf("settlement %d: granted %v, %d and %d used: want %+v", i, r.Granted, r.Used(1, &tokens), r.Used(2, &window), tt)
				}
			}
		})
	}
}

// run runs the script for some keys.
func run(t testing.TB, rdb redis.Scripter, keys []string, quotas []*redisscript.Quota, takes []redisscript.Take) redisscript.Reply {
	t.Helper()
	var args []any
	for i := range takes {
		args = quotas[i].Args(args, &takes[i])
	}
	numbers, err := bucketScript.Run(context.Background(), rdb, keys, args...).Int64Slice()
	testrig.Must(t, err)
	r, err := redisscript.ReadReply(numbers, quotas...)
	testrig.Must(t, err)
	return r
}
