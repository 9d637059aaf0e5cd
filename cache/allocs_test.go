//go:build !race

package cache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
)

// A hit allocates nothing, nor does an old value that another caller refreshes,
// or one that may be refreshed early and is not.
func TestHitsAllocateNothing(t *testing.T) {
	fill := func(context.Context, string) (int, error) { return 1, nil }
	check := func(s *story, what string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	for what, cfg := range map[string]config{
		"for ever":    {},
		"with a TTL":  {TTL: time.Minute, Refresh: cache.Refresh{Jitter: 0.1}},
		"with limits": {PerKey: func(string) weir.Limiter { return nil }, Refresh: cache.Refresh{Limiter: atOnce(1, time.Hour, 0)}},
	} {
		tell(t, cfg, func(s *story) {
			s.c.Set("a", 1)
			ctx := timeout(s, time.Hour)
			check(s, what+": Get", func() { s.c.Get(ctx, "a", fill) })
			check(s, what+": Lookup", func() { s.c.Lookup(ctx, "a", fill) })
			check(s, what+": Peek", func() { s.c.Peek("a") })
			check(s, what+": Peek of none", func() { s.c.Peek("b") })
		})
	}
	tell(t, config{Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
		s.answers(0, errDown)
		s.want("failed: down")
		check(s, "a kept error", func() { s.c.Get(context.Background(), "a", fill) })
	})
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Hour}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(time.Second, nil)
		first := s.later(context.Background())
		check(s, "an old value", func() { s.c.Get(context.Background(), "a", fill) })
		s.hear(first, "filled 2")
	})
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Early: 1}}, func(s *story) {
		s.answers(time.Second, nil)
		s.want("filled 1")
		time.Sleep(time.Minute - 36*time.Second) // e⁻³⁶: not in this life
		check(s, "not early", func() { s.c.Get(context.Background(), "a", fill) })
		synctest.Wait()
	})
}

// A fill allocates three times, with and without a limit, and a call of OnEvict once
// more.
func TestFillsAllocateLittle(t *testing.T) {
	fill := func(context.Context, int) (int, error) { return 1, nil }
	lim := atOnce(1, time.Nanosecond, 1<<20)
	want := map[bool]float64{false: 3, true: 4} // with OnEvict?
	for what, cfg := range map[string]cache.Config[int, int]{
		"no limit": {},
		"a limit":  {Refresh: cache.Refresh{Limiter: lim}},
		"OnEvict":  {OnEvict: func(int, int, cache.Cause) {}},
	} {
		cfg.Entries = 100
		c, err := cache.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		key := 0
		n := testing.AllocsPerRun(2000, func() {
			key++
			_, _ = c.Get(context.Background(), key, fill)
		})
		if n > want[cfg.OnEvict != nil] {
			t.Errorf("%s: %v allocations: want %v", what, n, want[cfg.OnEvict != nil])
		}
	}
}
