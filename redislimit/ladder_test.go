//go:build system

package redislimit_test

import (
	"context"
	"fmt"
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
