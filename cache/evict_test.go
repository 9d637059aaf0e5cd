package cache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
)

// An evictions records what OnEvict is told.
type evictions []string

func (l *evictions) add(key string, value int, why cache.Cause) {
	*l = append(*l, fmt.Sprintf("%s=%d %v", key, value, why))
}

func (l *evictions) expect(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(*l)
	slices.Sort(want)
	if !slices.Equal(*l, want) {
		t.Errorf("%q: want %q", *l, want)
	}
	*l = nil
}

func TestOnEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told evictions
		var c *cache.Cache[string, int]
		c = newCache(t, config{Entries: 2, TTL: time.Second, OnEvict: func(key string, value int, why cache.Cause) {
			c.Stats() // would deadlock under the lock
			told.add(key, value, why)
		}, Refresh: cache.Refresh{ErrorTTL: time.Minute}})
		c.Set("a", 1)
		c.Set("a", 2)
		told.expect(t, "a=1 replaced")
		c.Set("b", 3)
		told.expect(t)
		c.Set("c", 4)
		if len(told) != 1 || c.Stats().Evicted != 1 {
			t.Errorf("%q: want one value evicted", told)
		}
		left := maps.Collect(c.All())
		told = nil
		for key, value := range left {
			c.Delete(key)
			told.expect(t, fmt.Sprintf("%s=%d deleted", key, value))
			break
		}
		c.Delete("unknown")
		told.expect(t)
		c.Purge()
		if len(told) != 1 {
			t.Errorf("%q: want the other value deleted", told)
		}
		told = nil
		if _, err := c.Get(t.Context(), "d", func(context.Context, string) (int, error) { return 0, errDown }); err != errDown {
			t.Errorf("%v: want that of the fill", err)
		}
		c.Set("d", 5) // in place of a kept error
		told.expect(t)
		time.Sleep(time.Second)
		if v, err := c.Get(t.Context(), "d", func(context.Context, string) (int, error) { return 6, nil }); v != 6 || err != nil {
			t.Error(v, err)
		}
		told.expect(t, "d=5 replaced")
	})
}

// If OnEvict panics, the other values are told of all the same.
func TestOnEvictPanics(t *testing.T) {
	var told evictions
	c := newCache(t, config{OnEvict: func(key string, value int, why cache.Cause) {
		told.add(key, value, why)
		panic(key)
	}})
	for i, key := range []string{"a", "b", "c"} {
		c.Set(key, i)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("want the panic")
			}
		}()
		c.Purge()
	}()
	told.expect(t, "a=0 deleted", "b=1 deleted", "c=2 deleted")
}

func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told evictions
		c := newCache(t, config{TTL: 10 * time.Second, Sweep: time.Second, OnEvict: told.add,
			TTLOf: func(key string, _ int, _ error) time.Duration {
				return map[string]time.Duration{"long": time.Hour}[key]
			},
			Refresh: cache.Refresh{ErrorTTL: 2 * time.Second, StaleIfError: 5 * time.Second}})
		for i := range 1000 {
			c.Set(fmt.Sprint(i), i)
		}
		c.Set("long", 1)
		_, _ = c.Get(t.Context(), "down", func(context.Context, string) (int, error) { return 0, errDown })
		entries := func(want int) {
			t.Helper()
			if s := c.Stats(); s.Entries != want {
				t.Errorf("after %v: %d entries: want %d", time.Since(bubbleBegan), s.Entries, want)
			}
		}
		time.Sleep(1900 * time.Millisecond)
		entries(1002)
		time.Sleep(2 * time.Second) // the error has expired
		entries(1001)
		told.expect(t)
		time.Sleep(11 * time.Second) // the others may still be returned in place of an error
		entries(1001)
		time.Sleep(2 * time.Second)
		entries(1)
		if len(told) != 1000 || told[0][len(told[0])-len(" expired"):] != " expired" {
			t.Errorf("%d values expired: want 1000", len(told))
		}
		c.Close()
		time.Sleep(2 * time.Hour)
		entries(1) // no sweep after Close
	})
}

// Without sweeps, new values take the place of expired ones, also if there is room.
func TestExpiredValuesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := 0
		c := newCache(t, cache.Config[int, int]{
			Entries: 100_000, TTL: time.Minute, Refresh: cache.Refresh{StaleIfError: time.Minute},
			OnEvict: func(_, _ int, why cache.Cause) {
				if why == cache.Expired {
					expired++
				}
			},
		})
		const live = 1000 // at any time, of them half in place of errors
		key := 0
		for range 50 {
			for range live / 2 {
				c.Set(key, key)
				key++
			}
			time.Sleep(time.Minute)
			if n := c.Stats().Entries; n > 3*live {
				t.Fatalf("%d entries, of which %d may be returned: want three times as many at most", n, live)
			}
			if n := c.Stats().Entries; expired != key-n {
				t.Fatalf("%d of %d have expired, %d are kept", expired, key, n)
			}
		}
	})
}

var bubbleBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A Cache with Sweep that has no users is collected, closed or not.
func TestSweepDoesNotKeepTheCache(t *testing.T) {
	collected := make(chan struct{})
	func() {
		c, err := cache.New(config{TTL: time.Hour, Sweep: time.Hour})
		testrig.Must(t, err)
		c.Set("a", 1)
		runtime.AddCleanup(c, func(ch chan struct{}) { close(ch) }, collected)
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-collected:
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("it is still there")
}

func TestGetAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := &counting{}
		c := newCache(t, config{TTL: time.Second, Refresh: cache.Refresh{Limiter: lim, StaleIfError: time.Minute, ErrorTTL: time.Second}})
		var asked [][]string
		var failure error
		fill := func(_ context.Context, keys []string) (map[string]int, error) {
			asked = append(asked, slices.Clone(keys))
			values := map[string]int{"unasked": 9}
			for _, k := range keys {
				if k != "none" {
					values[k] = len(asked)
				}
			}
			return values, failure
		}
		get := func(keys ...string) (map[string]int, error) { return c.GetAll(t.Context(), keys, fill) }
		expect := func(got map[string]int, err error, want map[string]int, wantErr error) {
			t.Helper()
			if !maps.Equal(got, want) || err != wantErr {
				t.Errorf("%v, %v: want %v, %v", got, err, want, wantErr)
			}
		}
		c.Set("a", 100)
		v, err := get("a", "b", "none", "b")
		expect(v, err, map[string]int{"a": 100, "b": 1}, nil)
		v, err = get("b", "a")
		expect(v, err, map[string]int{"a": 100, "b": 1}, nil)
		if want := [][]string{{"b", "none"}}; !slices.EqualFunc(asked, want, slices.Equal) || lim.asked != 1 {
			t.Errorf("fills of %q, %d permits: want %q", asked, lim.asked, want)
		}
		if _, ok := c.Peek("unasked"); ok {
			t.Error("a key that was not asked for is kept")
		}
		if s := c.Stats(); s.Lookups[cache.Hit] != 3 || s.Lookups[cache.Filled] != 1 || s.Lookups[cache.Failed] != 1 || s.Fills != 1 || s.Entries != 2 {
			t.Errorf("%+v", s)
		}

		time.Sleep(2 * time.Second)
		failure = errDown
		v, err = get("a", "new")
		expect(v, err, map[string]int{"a": 100}, errDown) // an old value in place of the error
		if s := c.Stats(); s.Lookups[cache.Stale] != 1 || s.Errors != 1 {
			t.Errorf("%+v", s)
		}
		failure = nil
		v, err = get("a", "new")
		expect(v, err, map[string]int{"a": 3, "new": 3}, nil)

		_, _ = c.Get(t.Context(), "down", func(context.Context, string) (int, error) { return 0, errDown })
		v, err = get("down", "more")
		expect(v, err, map[string]int{"more": 4}, errDown) // the error is kept

		lim.refuse = weir.Reject(weir.OverRate, 0)
		v, err = get("other")
		expect(v, err, nil, lim.refuse)
		if s := c.Stats(); s.Rejected != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// What is set or deleted during a fill stays so.
func TestGetAllDoesNotOverwrite(t *testing.T) {
	c := newCache(t, config{})
	v, err := c.GetAll(t.Context(), []string{"set", "deleted", "kept"}, func(context.Context, []string) (map[string]int, error) {
		c.Set("set", 1)
		c.Delete("deleted")
		return map[string]int{"set": 2, "deleted": 2, "kept": 2}, nil
	})
	if err != nil || len(v) != 3 || v["set"] != 2 {
		t.Error(v, err)
	}
	if got, want := maps.Collect(c.All()), map[string]int{"set": 1, "kept": 2}; !maps.Equal(got, want) {
		t.Errorf("%v: want %v", got, want)
	}
}

// A fill may change the keys that it gets, for example by filtering them in place.
func TestGetAllFillChangesKeys(t *testing.T) {
	c, err := cache.New(cache.Config[string, int]{})
	testrig.Must(t, err)
	got, err := c.GetAll(t.Context(), []string{"a", "b"}, func(_ context.Context, keys []string) (map[string]int, error) {
		values := map[string]int{"a": 1, "b": 2}
		clear(keys)
		return values, nil
	})
	if _, kept := c.Peek("b"); len(got) != 2 || err != nil || !kept {
		t.Errorf("%v, %v, b kept: %v: want both values, returned and kept", got, err, kept)
	}
}

func TestGetAllPanics(t *testing.T) {
	c := newCache(t, config{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("want the panic")
			}
		}()
		_, _ = c.GetAll(t.Context(), []string{"a"}, func(context.Context, []string) (map[string]int, error) { panic("a bug") })
	}()
	if v, err := c.Get(t.Context(), "a", func(context.Context, string) (int, error) { return 1, nil }); v != 1 || err != nil {
		t.Error(v, err)
	}
	if s := c.Stats(); s.Errors != 1 || s.Entries != 1 {
		t.Errorf("%+v", s)
	}
}

func TestGetAllTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, config{Refresh: cache.Refresh{Timeout: time.Second}})
		_, err := c.GetAll(t.Context(), []string{"a"}, func(ctx context.Context, _ []string) (map[string]int, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(bubbleBegan) != time.Second {
			t.Errorf("%v after %v", err, time.Since(bubbleBegan))
		}
	})
}

// A counting limiter admits everything, unless it has a reason to refuse.
type counting struct {
	asked  int
	refuse error
}

func (l *counting) Acquire(context.Context, int) (weir.Permit, error) {
	l.asked++
	return weir.Permit{}, l.refuse
}

func BenchmarkSweep(b *testing.B) {
	for _, entries := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			c, err := cache.New(cache.Config[int, int]{Entries: entries, TTL: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			for i := range entries {
				c.Set(i, i)
			}
			for b.Loop() {
				c.SweepNow()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(entries), "ns/entry")
		})
	}
}
