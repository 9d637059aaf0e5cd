//go:build external

package redislimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

// impatient returns a client that gives connections up soon.
func impatient(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialTimeout: time.Second, DialerRetries: 1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// reach waits until decisions about a key have the step.
func reach(t testing.TB, l *redislimit.Limiter, key string, step redislimit.Step) {
	t.Helper()
	redistest.Until(t, "the step is "+step.String(), func() error {
		if d := take(t, l, key, 0); d.Step != step {
			return fmt.Errorf("%+v, %+v", d, l.Stats())
		}
		return nil
	})
}

// drain takes tokens of a key until it is denied, and returns how many there were.
func drain(t testing.TB, l *redislimit.Limiter, key string) (n int) {
	t.Helper()
	for take(t, l, key, 1).OK {
		n++
	}
	return n
}

// The steps of a key before, during and after the absence of the server, which comes back
// empty: what was allowed meanwhile is charged.
func TestLadder(t *testing.T) {
	server := redistest.Start(t, "redis-server")
	var changes atomic.Int64
	l := limiter(t, impatient(t, server.Addr), gcra.Per(1, time.Hour, 40), redislimit.Config{
		Away: redislimit.Share, Instances: 4, Known: time.Hour, Timeout: time.Second, OnAway: func(error) { changes.Add(1) },
	})
	take(t, l, "used", 20)
	take(t, l, "empty", 40)
	server.Kill()
	reach(t, l, "used", redislimit.Known)
	for key, want := range map[string]int{"used": 5, "empty": 0, "other": 10} {
		if n := drain(t, l, key); n != want {
			t.Errorf("%d tokens of %s while the server is away, want the share of those it has told to be left: %d", n, key, want)
		}
	}
	if d := take(t, l, "used", 1); d.Step != redislimit.Known || !d.Degraded() || d.RetryAfter == 0 {
		t.Errorf("%+v, want a denial on the last known state", d)
	}
	server.Run()
	reach(t, l, "used", redislimit.Exact)
	for key, want := range map[string]int{"used": 35, "other": 30} { // the server has forgotten the 20
		if d := take(t, l, key, 0); d.Remaining != want {
			t.Errorf("%d tokens of %s remain after that, want %d", d.Remaining, key, want)
		}
	}
	redistest.Until(t, "OnAway has told both changes", func() error {
		if n := changes.Load(); n != 2 {
			return fmt.Errorf("%d changes", n)
		}
		return nil
	})
}

// What the Limiter does in the end is the user's choice.
func TestAway(t *testing.T) {
	nobody := impatient(t, "127.0.0.1:1")
	for away, want := range map[redislimit.Away]struct {
		step    redislimit.Step
		allowed int
	}{redislimit.Deny: {redislimit.Chosen, 0}, redislimit.Allow: {redislimit.Chosen, 20}, redislimit.Share: {redislimit.Shared, 5}} {
		l := limiter(t, nobody, gcra.Per(1, time.Hour, 10), redislimit.Config{Away: away, Instances: 2, Timeout: time.Second})
		allowed := 0
		for range 20 {
			d := take(t, l, "key", 1)
			if d.Step != want.step || d.OK == (d.RetryAfter != 0) {
				t.Errorf("%v: %+v, want the step %v", away, d, want.step)
			}
			if d.OK {
				allowed++
			}
		}
		if s := l.Stats(); allowed != want.allowed || s.Decisions[want.step] != 20 || !s.Away {
			t.Errorf("%v: %d allowed, %+v, want %d", away, allowed, s, want.allowed)
		}
		_, err := l.For("more").Acquire(context.Background(), 6)
		if r, _ := err.(*weir.Rejection); (err == nil) != (away == redislimit.Allow) || r != nil && r.Reason != weir.Closed {
			t.Errorf("%v: Acquire: %v", away, err)
		}
	}
}

// A call that the server decides too late is decided here, and gives back what the server
// grants.
func TestLate(t *testing.T) {
	server := redistest.Start(t, "redis-server")
	proxy := redistest.NewProxy(t, server)
	l := limiter(t, client(t, server), gcra.Per(1, time.Hour, 40), patient)
	slow := limiter(t, redis.NewClient(&redis.Options{Addr: proxy.Addr}), gcra.Per(1, time.Hour, 40), redislimit.Config{
		Away: redislimit.Deny, Instances: 1, Known: -1, Timeout: 200 * time.Millisecond,
	})
	reach(t, slow, "key", redislimit.Exact)
	proxy.Delay(500 * time.Millisecond)
	if d := take(t, slow, "key", 30); d.OK || d.Step != redislimit.Chosen {
		t.Errorf("a late decision: %+v", d)
	}
	proxy.Delay(0)
	redistest.Until(t, "the tokens are back", func() error {
		if d := take(t, l, "key", 0); d.Remaining != 40 {
			return fmt.Errorf("%+v %+v", d, l.Stats())
		}
		return nil
	})
	reach(t, slow, "key", redislimit.Exact)
}

// Under load, every fault leaves calls with decisions, and ends.
func TestFaults(t *testing.T) {
	server := redistest.Start(t, "redis-server", "--requirepass", "secret")
	proxy := redistest.NewProxy(t, server)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "secret"})
	defer admin.Close()
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr, Password: "secret", ContextTimeoutEnabled: true, DialTimeout: time.Second, MaxRetries: -1})
	defer rdb.Close()
	l := limiter(t, rdb, gcra.Per(1000, time.Second, 100), redislimit.Config{Away: redislimit.Share, Instances: 2, Known: -1, Timeout: 100 * time.Millisecond})
	ctx := context.Background()
	reach(t, l, "probe", redislimit.Exact)

	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := l.Take(ctx, fmt.Sprint("key:", (n+i)%50), 1); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	do := func(args ...any) func() {
		return func() {
			if err := admin.Do(ctx, args...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, fault := range []struct {
		name       string
		step       redislimit.Step // that it leads to
		begin, end func()
	}{
		{"the script cache is flushed", redislimit.Exact, do("SCRIPT", "FLUSH"), func() {}},
		{"the keys are flushed", redislimit.Exact, do("FLUSHALL"), func() {}},
		{"killed", redislimit.Shared, server.Kill, server.Run},
		{"slow", redislimit.Shared, func() { proxy.Delay(300 * time.Millisecond) }, func() { proxy.Delay(0) }},
		{"silent", redislimit.Shared, func() { proxy.Silence(true) }, func() { proxy.Silence(false) }},
		{"stopped", redislimit.Shared, do("CLIENT", "PAUSE", "1000"), func() {}},
		{"full", redislimit.Shared, do("CONFIG", "SET", "maxmemory", "1"), do("CONFIG", "SET", "maxmemory", "0")},
	} {
		t.Run(fault.name, func(t *testing.T) {
			before := l.Stats()
			fault.begin()
			redistest.Until(t, "decisions are "+fault.step.String(), func() error {
				if l.Stats().Decisions[fault.step] == before.Decisions[fault.step] {
					return fmt.Errorf("%+v", l.Stats())
				}
				return nil
			})
			fault.end()
			redistest.Until(t, "the server decides again", func() error {
				if d := take(t, l, "probe", 1); d.Step != redislimit.Exact || l.Stats().Away {
					return fmt.Errorf("%+v, %+v", d, l.Stats())
				}
				return nil
			})
		})
	}
	close(stop)
	group.Wait()
}

// Three instances under load on one key, while their server is killed at random and comes back
// empty: every call is decided, and no more is allowed than the limit, a burst for each state
// that was lost, and the shares of each absence.
func TestCampaign(t *testing.T) {
	const rate, burst, kills = 500, 60, 5
	server := redistest.Start(t, "redis-server")
	var allowed, decided atomic.Int64
	var slowest atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	began := time.Now()
	for range 3 {
		l := limiter(t, impatient(t, server.Addr), gcra.Per(rate, time.Second, burst), redislimit.Config{Away: redislimit.Share, Instances: 3})
		defer func() {
			redistest.Until(t, "the server decides again", func() error {
				if d := take(t, l, "other", 1); d.Step != redislimit.Exact || l.Stats().Away {
					return fmt.Errorf("%+v, %+v", d, l.Stats())
				}
				return nil
			})
			t.Logf("%+v", l.Stats())
		}()
		for range 4 {
			group.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					asked := time.Now()
					if l.Allow(context.Background(), "key") {
						allowed.Add(1)
					}
					decided.Add(1)
					for took := int64(time.Since(asked)); ; {
						if old := slowest.Load(); took <= old || slowest.CompareAndSwap(old, took) {
							break
						}
					}
				}
			})
		}
	}
	for range kills {
		time.Sleep(rand.N(600 * time.Millisecond))
		server.Kill()
		time.Sleep(rand.N(600 * time.Millisecond))
		server.Run()
	}
	close(stop)
	group.Wait()
	t.Logf("%d of %d allowed in %v, the slowest after %v", allowed.Load(), decided.Load(), time.Since(began), time.Duration(slowest.Load()))
	if most := int64(burst*(1+2*kills) + rate*time.Since(began).Seconds()); allowed.Load() > most {
		t.Errorf("%d allowed, want at most %d", allowed.Load(), most)
	}
}

// A wrong password is told, and decided about as any absence.
func TestWrongPassword(t *testing.T) {
	server := redistest.Start(t, "redis-server", "--requirepass", "secret")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "guess", MaxRetries: -1})
	defer rdb.Close()
	told := make(chan error, 1)
	l := limiter(t, rdb, gcra.Per(1, time.Hour, 10), redislimit.Config{Away: redislimit.Deny, Instances: 1, Timeout: time.Second, OnAway: func(err error) { told <- err }})
	for range 4 {
		if d := take(t, l, "key", 1); d.OK || d.Step != redislimit.Chosen {
			t.Errorf("%+v", d)
		}
	}
	if err := <-told; !redis.HasErrorPrefix(err, "WRONGPASS") {
		t.Errorf("told %v", err)
	}
}
