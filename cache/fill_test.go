package cache

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

// A test cannot act between the end of a fill and the end of its run, or between
// their beginnings. So a run outside the Cache represents those moments. A lookup
// after a Delete does not join it.
func TestNoneJoinsARunFromBeforeADelete(t *testing.T) {
	for name, forget := range map[string]func(*Cache[string, int]){
		"Delete": func(c *Cache[string, int]) { c.Delete("a") },
		"Purge":  func(c *Cache[string, int]) { c.Purge() },
		"Set, and deleted": func(c *Cache[string, int]) {
			c.Set("a", 5)
			c.Delete("a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New(Config[string, int]{})
				testrig.Must(t, err)
				end := make(chan struct{})
				go c.runs.Load().Do(context.Background(), "a", func(context.Context) (int, error) {
					<-end
					return 1, nil
				})
				synctest.Wait()
				forget(c)
				go func() {
					v, s, err := c.Lookup(context.Background(), "a", func(context.Context, string) (int, error) { return 2, nil })
					if v != 2 || s != Filled || err != nil {
						t.Errorf("%d, %v, %v: want 2, filled", v, s, err)
					}
				}()
				synctest.Wait()
				close(end)
				synctest.Wait()
			})
		})
	}
}

// A fill leaves nothing in Cache.filling, however it ends.
func TestNothingIsLeftOfAFill(t *testing.T) {
	armed := false
	c, err := New(Config[any, int]{TTLOf: func(_ any, _ int, err error) time.Duration {
		if armed && err != nil {
			panic("boom")
		}
		return 0
	}, Refresh: Refresh{ErrorTTL: 1}})
	testrig.Must(t, err)
	ask := func(fill func(context.Context, any) (int, error)) {
		for _, key := range []any{"a", nan} {
			c.Get(context.Background(), key, fill)
		}
		if n := len(c.filling); n != 0 {
			t.Errorf("%d fills are left", n)
		}
	}
	ask(func(context.Context, any) (int, error) { return 1, nil })
	c.Purge()
	ask(func(context.Context, any) (int, error) { return 1, errEnded })
	c.Purge()
	ask(func(context.Context, any) (int, error) { panic("boom") })
	armed = true
	ask(func(context.Context, any) (int, error) { return 1, context.DeadlineExceeded })
}

// Nor does a fill of several keys. Its callbacks may panic, too.
func TestNothingIsLeftOfAFillOfSeveralKeys(t *testing.T) {
	c, err := New(Config[string, int]{TTLOf: func(_ string, value int, _ error) time.Duration {
		if value < 0 {
			panic("boom")
		}
		return 0
	}})
	testrig.Must(t, err)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("want the panic")
			}
		}()
		c.GetAll(t.Context(), []string{"a", "b", "c"}, func(context.Context, []string) (map[string]int, error) {
			return map[string]int{"a": 1, "b": -1, "c": 1}, nil
		})
	}()
	if n := len(c.filling); n != 0 {
		t.Errorf("%d fills are left", n)
	}
}

var nan = math.NaN()

// Between a lookup and its run another run may have ended: what that has left
// is the answer, a value or an error.
func TestAnotherRunHasEnded(t *testing.T) {
	c, err := New(Config[string, int]{Refresh: Refresh{ErrorTTL: 1 << 60}})
	testrig.Must(t, err)
	fail := func(context.Context, string) (int, error) { return 0, errEnded }
	none := func(context.Context, string) (int, error) {
		t.Error("a fill too many")
		return 0, nil
	}
	c.Set("a", 5)
	if v, s, err := c.miss(context.Background(), c.hash("a"), "a", nil, c.now(), none); v != 5 || s != Hit || err != nil {
		t.Errorf("%d, %v, %v: want 5, hit", v, s, err)
	}
	c.Get(context.Background(), "b", fail)
	if _, _, err := c.miss(context.Background(), c.hash("b"), "b", nil, c.now(), none); err != errEnded {
		t.Errorf("%v: want the error that is kept", err)
	}
	e := c.table.Load().find(c.hash("a"), "a")
	e.fault.Store(&fault{errEnded, never})
	l := &lookup[string, int]{c: c, hash: e.hash, key: "a", seen: e, fill: none}
	if _, err := l.run(context.Background()); err != errEnded {
		t.Errorf("%v: want the error that is kept beside the value", err)
	}
}

// If all callers have left a run before its fill began, the fill does not begin.
func TestNoFillWithoutCallers(t *testing.T) {
	c, err := New(Config[string, int]{})
	testrig.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l := &lookup[string, int]{c: c, hash: c.hash("a"), key: "a", fill: func(context.Context, string) (int, error) {
		t.Error("a fill for nobody")
		return 0, nil
	}}
	if _, err := l.run(ctx); err != context.Canceled || c.Stats().Fills != 0 {
		t.Errorf("%v, %+v: want no fill", err, c.Stats())
	}
}

// What another run has left, but is not fresh any more, is not the answer.
func TestAnotherRunHasEndedLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config[string, int]{TTL: 1, Refresh: Refresh{ErrorTTL: 1}})
		testrig.Must(t, err)
		c.Set("a", 5)
		c.Get(context.Background(), "b", func(context.Context, string) (int, error) { return 0, errEnded })
		time.Sleep(1 * time.Nanosecond)
		for _, key := range []string{"a", "b"} {
			v, s, err := c.miss(context.Background(), c.hash(key), key, nil, c.now(), func(context.Context, string) (int, error) { return 6, nil })
			if v != 6 || s != Filled || err != nil {
				t.Errorf("%s: %d, %v, %v: want 6, filled", key, v, s, err)
			}
		}
	})
}

// Lookups count as uses of a kept value; Peek and All do not.
func TestWhatIsAUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config[string, int]{TTL: time.Minute, Refresh: Refresh{StaleIfError: time.Minute}})
		testrig.Must(t, err)
		fail := func(context.Context, string) (int, error) { return 0, errEnded }
		used := func(what string, want uint32, use func()) {
			t.Helper()
			e := c.table.Load().find(c.hash("a"), "a")
			before := e.hits.Load()
			if use(); e.hits.Load() != before+want {
				t.Errorf("%s: counts as %d: want %d", what, e.hits.Load()-before, want)
			}
		}
		c.Set("a", 1)
		used("Peek", 0, func() { c.Peek("a") })
		used("All", 0, func() {
			for range c.All() {
			}
		})
		used("Get", 1, func() { c.Get(context.Background(), "a", fail) })
		used("Lookup", 1, func() { c.Lookup(context.Background(), "a", fail) })
		time.Sleep(time.Minute)
		used("an old value", 1, func() { c.Get(context.Background(), "a", fail) })
	})
}

// The table of a cache grows with what it holds, and shrinks with what is
// deleted or purged.
func TestTableFollows(t *testing.T) {
	const n = 10_000
	c, err := New(Config[int, int]{Entries: n})
	testrig.Must(t, err)
	buckets := func(least, most int) {
		t.Helper()
		if b := len(c.table.Load().buckets); b < least || b > most {
			t.Errorf("%d buckets: want from %d to %d", b, least, most)
		}
	}
	set := func() {
		for key := range n {
			c.Set(key, key)
		}
		buckets(n/4, n)
	}
	set()
	for key := range n {
		c.Delete(key)
		if table := c.table.Load(); table.entries > slots*len(table.buckets) {
			t.Fatalf("%d buckets for %d entries", len(table.buckets), table.entries)
		}
	}
	buckets(minBuckets, minBuckets)
	set()
	c.Purge()
	buckets(minBuckets, minBuckets)
}

// It shrinks, too, when a few large entries take the place of many.
func TestTableFollowsEvictions(t *testing.T) {
	c, err := New(Config[int, int]{Bytes: 4 << 20, Cost: func(_, v int) int64 { return int64(v) }})
	testrig.Must(t, err)
	for key := range 15_000 {
		c.Set(key, 0)
	}
	for key := range 2000 {
		c.Set(-key, 8<<10)
		c.Get(context.Background(), -key, nil) // so that it stays, in place of those
	}
	table := c.table.Load()
	if table.entries > 1000 || len(table.buckets) > max(table.entries, minBuckets) {
		t.Errorf("%d buckets for %d entries", len(table.buckets), table.entries)
	}
}

// A new value is as popular as the one that it replaces.
func TestNewValueKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config[int, int]{Entries: 100, TTL: time.Minute})
		testrig.Must(t, err)
		for key := range 50 {
			c.Set(key, 0)
		}
		fill := func(context.Context, int) (int, error) { return 1, nil }
		for range 2 {
			c.Get(context.Background(), 0, fill)
		}
		for what, renew := range map[string]func(){
			"Set": func() { c.Set(0, 1) },
			"a fill": func() {
				time.Sleep(time.Minute)
				c.Get(context.Background(), 0, fill)
			},
		} {
			renew()
			e := c.table.Load().find(c.hash(0), 0)
			if e.value != 1 || e.queue != &c.policy.main || e.hits.Load() != 2 {
				t.Errorf("%s: value %d, in main: %v, %d hits: want 1 in main, with 2", what, e.value, e.queue == &c.policy.main, e.hits.Load())
			}
		}
	})
}
