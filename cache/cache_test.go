package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/flight"
)

var errDown = errors.New("down")

func newCache[K comparable, V any](t testing.TB, cfg cache.Config[K, V]) *cache.Cache[K, V] {
	t.Helper()
	c, err := cache.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

type config = cache.Config[string, int]

// A backend serves the fills of a story. Its answer is the number of the fill,
// from 1.
type backend struct {
	fills atomic.Int64

	mu    sync.Mutex
	took  time.Duration
	err   error
	stuck bool // does not heed its context
}

func (b *backend) fill(ctx context.Context, _ string) (int, error) {
	n := b.fills.Add(1)
	b.mu.Lock()
	took, err, stuck := b.took, b.err, b.stuck
	b.mu.Unlock()
	left := ctx.Done()
	if stuck {
		left = nil
	}
	if took > 0 {
		select {
		case <-time.After(took):
		case <-left:
			return 0, ctx.Err()
		}
	}
	return int(n), err
}

// answers sets what the backend does from now on.
func (b *backend) answers(took time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.took, b.err = took, err
}

// A story is a sequence of calls of a cache, in the virtual time of its bubble.
type story struct {
	*testing.T
	*backend
	c *cache.Cache[string, int]
}

func tell(t *testing.T, cfg config, what func(s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		what(&story{t, &backend{}, newCache(t, cfg)})
	})
}

func answer(v int, s cache.Status, err error) string {
	if err != nil {
		return fmt.Sprintf("%v: %v", s, err)
	}
	return fmt.Sprintf("%v %d", s, v)
}

func (s *story) ask(ctx context.Context, key string) string {
	return answer(s.c.Lookup(ctx, key, s.fill))
}

// want looks a up.
func (s *story) want(want string) {
	s.Helper()
	if got := s.ask(context.Background(), "a"); got != want {
		s.Errorf("%q: want %q", got, want)
	}
}

// later looks a up on another goroutine, and returns when that waits.
func (s *story) later(ctx context.Context) (got func() string) {
	ch := make(chan string, 1)
	go func() { ch <- s.ask(ctx, "a") }()
	synctest.Wait()
	return func() string { return <-ch }
}

func (s *story) hear(got func() string, want string) {
	s.Helper()
	if got := got(); got != want {
		s.Errorf("%q: want %q", got, want)
	}
}

func (s *story) asked(want int64) {
	s.Helper()
	if got := s.fills.Load(); got != want {
		s.Errorf("%d fills: want %d", got, want)
	}
}

// takes checks how much time passes.
func (s *story) takes(want time.Duration, what func()) {
	s.Helper()
	begun := time.Now()
	what()
	if got := time.Since(begun); got != want {
		s.Errorf("it took %v: want %v", got, want)
	}
}

func timeout(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Four calls, two at a time, of a function that takes a second: two are slow,
// and two come from the cache.
func TestTwoSlowTwoFromTheCache(t *testing.T) {
	tell(t, config{}, func(s *story) {
		s.answers(time.Second, nil)
		ask := func() (slow int) {
			var wg sync.WaitGroup
			var n atomic.Int64
			for range 2 {
				wg.Go(func() {
					begun := time.Now()
					if v, err := s.c.Get(context.Background(), "a", s.fill); v != 1 || err != nil {
						t.Errorf("%d, %v: want 1", v, err)
					}
					if time.Since(begun) >= time.Second {
						n.Add(1)
					}
				})
			}
			wg.Wait()
			return int(n.Load())
		}
		if slow := ask(); slow != 2 {
			t.Errorf("%d of the first two were slow", slow)
		}
		if slow := ask(); slow != 0 {
			t.Errorf("%d of the second two were slow", slow)
		}
		s.asked(1)
	})
}

func TestThousandCallersOneFill(t *testing.T) {
	tell(t, config{}, func(s *story) {
		s.answers(time.Second, nil)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if v, err := s.c.Get(context.Background(), "a", s.fill); v != 1 || err != nil {
					t.Errorf("%d, %v: want 1", v, err)
				}
			})
		}
		wg.Wait()
		s.asked(1)
		if st := s.c.Stats(); st.Lookups[cache.Filled] != 1 || st.Lookups[cache.Coalesced] != 999 || st.Fills != 1 {
			t.Errorf("%+v: want 1 filled, 999 coalesced", st)
		}
	})
}

// A fill continues for the other callers when the first one has left.
func TestLeaderLeavesFollowersGetTheValue(t *testing.T) {
	tell(t, config{}, func(s *story) {
		s.answers(time.Second, nil)
		ctx, cancel := context.WithCancel(context.Background())
		leader := s.later(ctx)
		follower := s.later(context.Background())
		cancel()
		s.hear(leader, "failed: context canceled")
		s.hear(follower, "coalesced 1")
		s.want("hit 1")
		s.asked(1)
	})
}

func TestLateJoinerWithAShortDeadline(t *testing.T) {
	tell(t, config{}, func(s *story) {
		s.answers(time.Second, nil)
		first := s.later(context.Background())
		time.Sleep(900 * time.Millisecond)
		s.takes(50*time.Millisecond, func() {
			s.hear(s.later(timeout(s, 50*time.Millisecond)), "failed: context deadline exceeded")
		})
		s.hear(first, "filled 1")
		s.want("hit 1")
	})
}

// A fill ends when its last caller leaves; later callers have a new one.
func TestFillEndsWithItsLastCaller(t *testing.T) {
	tell(t, config{Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
		s.answers(time.Hour, nil)
		s.hear(s.later(timeout(s, time.Second)), "failed: context deadline exceeded")
		synctest.Wait()
		s.answers(0, nil)
		s.want("filled 2")
	})
}

// The error of a fill that was cancelled is not kept, whatever it looks like.
func TestErrorOfACancelledFillIsNotKept(t *testing.T) {
	tell(t, config{Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
		_, err := s.c.Get(timeout(s, time.Second), "a", func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			return 0, errDown // as "connection closed"
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: want the deadline", err)
		}
		synctest.Wait()
		s.want("filled 1")
	})
}

func TestContextThatHasEnded(t *testing.T) {
	tell(t, config{TTL: time.Second, Refresh: cache.Refresh{StaleIfError: time.Second}}, func(s *story) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		ask := func(want string) {
			t.Helper()
			if got := s.ask(ended, "a"); got != want {
				t.Errorf("%q: want %q", got, want)
			}
		}
		ask("failed: context canceled")
		s.asked(0)
		s.want("filled 1")
		ask("hit 1")
		time.Sleep(time.Second)
		ask("stale 1")
		time.Sleep(time.Second)
		ask("failed: context canceled")
		s.asked(1)
	})
}

// The context of a fill has the values of its caller's, and not its end.
func TestContextOfAFill(t *testing.T) {
	type name struct{}
	tell(t, config{}, func(s *story) {
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), name{}, "x"), time.Hour)
		defer cancel()
		_, err := s.c.Get(ctx, "a", func(ctx context.Context, key string) (int, error) {
			if _, ok := ctx.Deadline(); ok || ctx.Value(name{}) != "x" || key != "a" {
				t.Errorf("of %q: deadline %v, value %v", key, ok, ctx.Value(name{}))
			}
			return 1, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestPanicReachesAllWhoWait(t *testing.T) {
	tell(t, config{Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
		boom := func(context.Context, string) (int, error) {
			time.Sleep(time.Second)
			panic(errDown)
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, status, err := s.c.Lookup(context.Background(), "a", boom)
				var p *flight.PanicError
				if !errors.As(err, &p) || p.Value != errDown || status != cache.Failed {
					t.Errorf("%v, %v: want the panic", status, err)
				}
			})
		}
		wg.Wait()
		if st := s.c.Stats(); st.Fills != 1 || st.Errors != 1 || st.Lookups[cache.Failed] != 10 {
			t.Errorf("%+v: want one fill, and 10 failed", st)
		}
		s.want("filled 1") // it is not kept
		s.want("hit 1")
	})
}

func TestGoexitReachesAllWhoWait(t *testing.T) {
	for _, ends := range []bool{false, true} { // with and without a goroutine of the fill's own
		tell(t, config{Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
			ctx := context.Background()
			if ends {
				ctx = timeout(s, time.Hour)
			}
			gone := make(chan error, 1)
			go func() {
				err := flight.ErrGoexit
				defer func() { gone <- err }()
				_, err = s.c.Get(ctx, "a", func(context.Context, string) (int, error) {
					time.Sleep(time.Second)
					runtime.Goexit()
					return 0, nil
				})
			}()
			synctest.Wait()
			s.hear(s.later(ctx), "failed: "+flight.ErrGoexit.Error())
			if err := <-gone; err != flight.ErrGoexit {
				t.Errorf("%v: want %v", err, flight.ErrGoexit)
			}
			if st := s.c.Stats(); st.Fills != 1 || st.Errors != 1 {
				t.Errorf("%+v: want one fill, one error", st)
			}
			s.want("filled 1")
			s.want("hit 1")
		})
	}
}

// What Config's functions panic with is a panic of the fill, too, and leaves
// nothing behind.
func TestPanicOfConfigsFunctions(t *testing.T) {
	var armed atomic.Bool
	boom := func() {
		if armed.Load() {
			panic("boom")
		}
	}
	for name, cfg := range map[string]config{
		"Cost":   {Bytes: 1 << 20, Cost: func(string, int) int64 { boom(); return 0 }},
		"TTLOf":  {TTLOf: func(string, int, error) time.Duration { boom(); return 0 }},
		"PerKey": {PerKey: func(string) weir.Limiter { boom(); return nil }},
		"TTLOf of an error": {TTLOf: func(_ string, _ int, err error) time.Duration {
			if err != nil {
				boom()
			}
			return 0
		}, Refresh: cache.Refresh{ErrorTTL: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, cfg, func(s *story) {
				if name == "TTLOf of an error" {
					s.answers(0, errDown)
				}
				armed.Store(true)
				_, err := s.c.Get(context.Background(), "a", s.fill)
				var p *flight.PanicError
				if !errors.As(err, &p) || p.Value != "boom" {
					t.Errorf("%v: want a *PanicError", err)
				}
				armed.Store(false)
				s.answers(0, nil)
				s.want(fmt.Sprint("filled ", s.fills.Load()+1))
				s.want(fmt.Sprint("hit ", s.fills.Load()))
			})
		})
	}
}

func TestZeroConfigKeepsForEver(t *testing.T) {
	tell(t, config{}, func(s *story) {
		s.want("filled 1")
		time.Sleep(100 * 365 * 24 * time.Hour)
		s.want("hit 1")
		if v, ok := s.c.Peek("a"); v != 1 || !ok {
			t.Errorf("Peek: %d, %v", v, ok)
		}
		s.answers(0, errDown)
		if got := s.ask(context.Background(), "b"); got != "failed: down" {
			t.Error(got)
		}
		for i := range 3 * cache.DefaultEntries {
			s.c.Set(fmt.Sprint(i), i)
		}
		if st := s.c.Stats(); st.Entries != cache.DefaultEntries || st.Bytes != 0 {
			t.Errorf("%+v: want %d entries", st, cache.DefaultEntries)
		}
	})
}

func TestTTL(t *testing.T) {
	tell(t, config{TTL: time.Minute}, func(s *story) {
		s.answers(time.Second, nil)
		s.want("filled 1")
		time.Sleep(time.Minute - 1)
		s.want("hit 1") // from the end of the fill
		time.Sleep(1 * time.Nanosecond)
		if v, ok := s.c.Peek("a"); ok || v != 0 {
			t.Errorf("Peek: %d, %v: want none", v, ok)
		}
		s.want("filled 2")
		s.answers(2*time.Minute, nil) // slower than TTL
		time.Sleep(time.Minute)
		first, second := s.later(context.Background()), s.later(context.Background())
		s.hear(first, "filled 3")
		s.hear(second, "coalesced 3")
		s.want("hit 3")
	})
}

func TestTTLOf(t *testing.T) {
	var ttl atomic.Int64
	of := func(key string, _ int, _ error) time.Duration {
		if key != "a" {
			t.Errorf("TTLOf(%q)", key)
		}
		return time.Duration(ttl.Load())
	}
	tell(t, config{TTL: time.Minute, TTLOf: of}, func(s *story) {
		s.want("filled 1") // zero: TTL
		time.Sleep(time.Minute - 1)
		s.want("hit 1")
		time.Sleep(1 * time.Nanosecond)
		ttl.Store(int64(time.Second))
		s.want("filled 2")
		time.Sleep(time.Second - 1)
		s.want("hit 2")
		time.Sleep(1 * time.Nanosecond)
		ttl.Store(-1) // is not kept
		s.want("filled 3")
		if n := s.c.Stats().Entries; n != 0 {
			t.Errorf("%d entries: the old value is out of date", n)
		}
		s.want("filled 4")
		s.c.Set("a", 7)
		s.want("filled 5")
		ttl.Store(1)
		s.c.Set("a", 7)
		s.want("hit 7")
		s.c.Set("a", 8)
		ttl.Store(-1)
		s.c.Set("a", 9) // neither 8 nor 9
		s.want("filled 6")
	})
	tell(t, config{TTLOf: of}, func(s *story) {
		ttl.Store(0)
		s.want("filled 1")
		time.Sleep(24 * time.Hour)
		s.want("hit 1") // without a TTL, for ever
	})
}

// What is beyond the end of time is for ever.
func TestEnormousDurations(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	for _, cfg := range []config{
		{TTL: most}, {TTL: most - 1, Refresh: cache.Refresh{Jitter: 0.01, Early: math.MaxFloat64}},
		{TTL: most, Refresh: cache.Refresh{Stale: most, StaleIfError: most, StaleIfRejected: most, ErrorTTL: most, Timeout: most}},
		{TTLOf: func(string, int, error) time.Duration { return most }, Refresh: cache.Refresh{Stale: most, Background: 16}},
	} {
		tell(t, cfg, func(s *story) {
			time.Sleep(time.Hour)
			s.answers(time.Nanosecond, nil)
			s.want("filled 1")
			for range 3 {
				time.Sleep(24 * time.Hour)
				if got := s.ask(context.Background(), "a"); cfg.Early == 0 && got != "hit 1" {
					t.Errorf("%+v: %s", cfg, got)
				}
			}
		})
	}
	tell(t, config{TTL: 1, Refresh: cache.Refresh{Stale: most, StaleIfError: most, StaleIfRejected: most, ErrorTTL: most}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Hour)
		s.answers(0, errDown)
		s.want("stale 1")
		time.Sleep(10 * 365 * 24 * time.Hour)
		s.want("stale 1")
		s.asked(2) // the error is kept for as long
	})
	tell(t, config{Refresh: cache.Refresh{ErrorTTL: most}}, func(s *story) {
		s.answers(0, errDown)
		s.want("failed: down")
		time.Sleep(10 * 365 * 24 * time.Hour)
		s.want("hit: down")
	})
}

func TestJitterSpreadsWithinItsBounds(t *testing.T) {
	const n, ttl = 1000, 1000
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Config[int, int]{TTL: ttl, Refresh: cache.Refresh{Jitter: 0.2}})
		for i := range n {
			c.Set(i, i)
		}
		count := func() int { return len(slices.Collect(keys(c))) }
		time.Sleep(0.8*ttl - 1)
		if got := count(); got != n {
			t.Errorf("%d of %d before the first may expire", got, n)
		}
		for i := 1; i <= 4; i++ { // a quarter each: 5 standard deviations are 69
			time.Sleep(0.05 * ttl)
			if got, want := count(), n-i*n/4; got < want-70 || got > want+70 {
				t.Errorf("%d of %d after %d quarters of the jitter: want about %d", got, n, i, want)
			}
		}
		time.Sleep(1 * time.Nanosecond)
		if got := count(); got != 0 {
			t.Errorf("%d are left after their TTL", got)
		}
		c = newCache(t, cache.Config[int, int]{TTL: 1, Refresh: cache.Refresh{Jitter: 0.999}}) // at least a nanosecond
		c.Set(1, 1)
		if _, ok := c.Peek(1); !ok {
			t.Error("expired before its time")
		}
	})
}

func keys[K comparable, V any](c *cache.Cache[K, V]) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range c.All() {
			if !yield(k) {
				return
			}
		}
	}
}

func TestTimeoutBoundsAFill(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Timeout: time.Second, ErrorTTL: time.Minute}}, func(s *story) {
		s.answers(2*time.Second, nil)
		s.takes(time.Second, func() { s.want("failed: context deadline exceeded") })
		s.want("hit: context deadline exceeded") // that is an error of the backend
		s.asked(1)
		s.answers(time.Second-1, nil)
		time.Sleep(time.Minute)
		s.want("filled 2")
	})
}

// If the key is deleted, set or purged while a fill runs, the value goes only to
// the callers that wait for it.
func TestWritesDuringAFill(t *testing.T) {
	for name, write := range map[string]func(*cache.Cache[string, int]){
		"Delete": func(c *cache.Cache[string, int]) { c.Delete("a") },
		"Purge":  func(c *cache.Cache[string, int]) { c.Purge() },
		"Set":    func(c *cache.Cache[string, int]) { c.Set("a", 100) },
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, config{TTL: time.Minute}, func(s *story) {
				s.want("filled 1")
				time.Sleep(time.Minute)
				s.answers(time.Second, nil)
				first, second := s.later(context.Background()), s.later(context.Background())
				write(s.c)
				later := s.later(context.Background())
				s.hear(first, "filled 2")
				s.hear(second, "coalesced 2")
				if name == "Set" {
					s.hear(later, "hit 100")
					s.want("hit 100")
					s.asked(2)
					return
				}
				s.hear(later, "filled 3")
				s.want("hit 3")
				s.asked(3)
			})
		})
	}
}

// A fill that ends after one that was begun later does not overwrite it.
func TestForgottenFillThatEndsLast(t *testing.T) {
	tell(t, config{}, func(s *story) {
		s.answers(2*time.Second, nil)
		first := s.later(context.Background())
		s.c.Delete("a")
		s.answers(time.Second, nil)
		s.hear(s.later(context.Background()), "filled 2")
		s.hear(first, "filled 1")
		s.want("hit 2")
	})
}

// A failing fill that was forgotten leaves no error, and no fill that runs
// later is taken for it.
func TestForgottenFillThatFails(t *testing.T) {
	tell(t, config{Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
		s.answers(time.Second, errDown)
		first := s.later(context.Background())
		s.c.Delete("a")
		s.answers(2*time.Second, nil)
		second := s.later(context.Background())
		s.hear(first, "failed: down")
		s.hear(s.later(context.Background()), "coalesced 2")
		s.hear(second, "filled 2")
		s.want("hit 2")
	})
}

func TestSetDeletePurge(t *testing.T) {
	tell(t, config{TTL: time.Minute}, func(s *story) {
		s.c.Delete("a")
		s.c.Purge()
		s.c.Set("a", 10)
		s.want("hit 10")
		time.Sleep(time.Minute - 1)
		s.c.Set("a", 11)
		time.Sleep(time.Minute - 1)
		s.want("hit 11") // its own TTL
		s.c.Delete("a")
		s.want("filled 1")
		s.c.Set("b", 12)
		if n := s.c.Stats().Entries; n != 2 {
			t.Errorf("%d entries: want 2", n)
		}
		s.c.Purge()
		if n := s.c.Stats().Entries; n != 0 {
			t.Errorf("%d entries: want none", n)
		}
		s.want("filled 2")
	})
}

// Views show what is fresh, and count nothing.
func TestViews(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{ErrorTTL: time.Hour, Stale: time.Hour}}, func(s *story) {
		s.c.Set("old", 1)
		time.Sleep(time.Minute)
		for i := range 100 {
			s.c.Set(fmt.Sprint(i), i)
		}
		s.answers(0, errDown)
		s.want("failed: down")
		before := s.c.Stats()
		seen := map[string]int{}
		for k, v := range s.c.All() {
			seen[k] = v
		}
		for i := range 100 {
			if v, ok := seen[fmt.Sprint(i)]; !ok || v != i {
				t.Errorf("All: %d: %d, %v", i, v, ok)
			}
			if v, ok := s.c.Peek(fmt.Sprint(i)); !ok || v != i {
				t.Errorf("Peek: %d: %d, %v", i, v, ok)
			}
		}
		if len(seen) != 100 {
			t.Errorf("All: %d values: want 100", len(seen))
		}
		for _, key := range []string{"old", "a", "unknown"} {
			if v, ok := s.c.Peek(key); ok || v != 0 {
				t.Errorf("Peek(%q): %d, %v: want none", key, v, ok)
			}
		}
		for range s.c.All() {
			break
		}
		if after := s.c.Stats(); !reflect.DeepEqual(after, before) || after.Entries != 102 {
			t.Errorf("%+v: want %+v, 102 entries", after, before)
		}
	})
}

// Every lookup is exactly one of five.
func TestStatsOfLookups(t *testing.T) {
	tell(t, config{TTL: time.Second, Refresh: cache.Refresh{Stale: time.Second, ErrorTTL: time.Second}}, func(s *story) {
		s.answers(100*time.Millisecond, nil)
		first := s.later(context.Background())
		second := s.later(context.Background())
		first()
		second()
		s.want("hit 1")
		time.Sleep(time.Second)
		third := s.later(context.Background())
		s.want("stale 1")
		s.hear(third, "filled 2")
		time.Sleep(2 * time.Second)
		s.answers(0, errDown)
		s.want("failed: down")
		s.want("hit: down")
		time.Sleep(time.Second)
		s.answers(0, weir.Reject(weir.OverRate, 0))
		s.want("failed: rejected: over_rate")
		want := cache.Stats{
			Lookups: map[cache.Status]uint64{cache.Hit: 2, cache.Stale: 1, cache.Filled: 2, cache.Coalesced: 1, cache.Failed: 2},
			Fills:   4, Errors: 1, Rejected: 1, Entries: 1,
		}
		if got := s.c.Stats(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

func TestStatusNames(t *testing.T) {
	want := []string{"failed", "hit", "stale", "filled", "coalesced", "unknown"}
	for i, s := range []cache.Status{cache.Failed, cache.Hit, cache.Stale, cache.Filled, cache.Coalesced, 5} {
		if s.String() != want[i] {
			t.Errorf("%v: want %s", s, want[i])
		}
	}
}

func TestKeysOfAllKinds(t *testing.T) {
	type pair struct {
		a string
		b int
	}
	x, y := new(int), new(int)
	apart(t, "a", "b")
	apart(t, "", strings.Repeat("long", 1000))
	apart(t, 1, -1)
	apart(t, pair{"a", 1}, pair{"a", 2})
	apart(t, [2]string{"a", "b"}, [2]string{"b", "a"})
	apart(t, [16]byte{1}, [16]byte{15: 1})
	apart[any](t, 1, "1")
	apart[any](t, nil, 0)
	apart(t, 0.5, -0.5)
	apart(t, x, y)
	apart(t, struct{}{}, struct{}{})
}

func apart[K comparable](t *testing.T, a, b K) {
	t.Helper()
	c := newCache(t, cache.Config[K, string]{})
	fill := func(_ context.Context, key K) (string, error) { return fmt.Sprint(key), nil }
	for _, key := range []K{a, b, a, b} {
		if v, err := c.Get(context.Background(), key, fill); v != fmt.Sprint(key) || err != nil {
			t.Errorf("%T: of %v: %q, %v", key, key, v, err)
		}
	}
	want := 2
	if a == b {
		want = 1
	}
	if s := c.Stats(); s.Fills != uint64(want) || s.Entries != want {
		t.Errorf("%T: %+v: want %d fills", a, s, want)
	}
	c.Delete(a)
	if _, ok := c.Peek(a); ok {
		t.Errorf("%T: %v is still there", a, a)
	}
}

func TestZerosAreOneKey(t *testing.T) {
	c := newCache(t, cache.Config[float64, int]{})
	c.Set(0, 7)
	if v, ok := c.Peek(math.Copysign(0, -1)); !ok || v != 7 {
		t.Errorf("%d, %v: want 7: -0 == 0", v, ok)
	}
}

// A key that is not equal to itself is never kept, nor is anything of it.
func TestKeyThatIsNotItself(t *testing.T) {
	c := newCache(t, cache.Config[float64, int]{Entries: 10})
	nan := math.NaN()
	fills := 0
	fill := func(context.Context, float64) (int, error) { fills++; return fills, nil }
	lookup := func(n int) {
		for range n {
			fills = 0
			if v, s, err := c.Lookup(context.Background(), nan, fill); v != 1 || s != cache.Filled || err != nil {
				t.Fatalf("%d, %v, %v: want 1, filled", v, s, err)
			}
		}
	}
	c.Set(nan, 1)
	if _, ok := c.Peek(nan); ok {
		t.Error("found")
	}
	lookup(1)
	for k, v := range c.All() {
		t.Errorf("kept: %v: %v", k, v)
	}
	if n := c.Stats().Entries; n != 0 {
		t.Errorf("%d entries: want none", n)
	}
	before := heap()
	lookup(50_000)
	if after := heap(); after > before+100_000 {
		t.Errorf("50,000 lookups have left %d bytes", after-before)
	}
	c.Delete(nan)
	c.Purge()
}

// heap returns the bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestKeyThatCannotBeCompared(t *testing.T) {
	c := newCache(t, cache.Config[any, int]{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("want a panic")
			}
		}()
		c.Set([]int{1}, 1)
	}()
	c.Set(1, 1) // no lock is held
}

// A value may be nil, and is kept as any other.
func TestNilValues(t *testing.T) {
	c := newCache(t, cache.Config[string, *int]{})
	fills := 0
	for range 3 {
		v, err := c.Get(context.Background(), "a", func(context.Context, string) (*int, error) { fills++; return nil, nil })
		if v != nil || err != nil {
			t.Errorf("%v, %v", v, err)
		}
	}
	if v, ok := c.Peek("a"); v != nil || !ok || fills != 1 {
		t.Errorf("Peek: %v, %v; %d fills", v, ok, fills)
	}
	e := newCache(t, cache.Config[string, error]{})
	e.Set("a", nil)
	if v, ok := e.Peek("a"); v != nil || !ok {
		t.Errorf("Peek: %v, %v", v, ok)
	}
}

// Get is counted as Lookup is.
func TestStatsOfGet(t *testing.T) {
	tell(t, config{}, func(s *story) {
		for range 4 {
			s.gets(1)
		}
		if st := s.c.Stats(); st.Lookups[cache.Filled] != 1 || st.Lookups[cache.Hit] != 3 {
			t.Errorf("%+v: want one filled, and 3 hits", st)
		}
	})
}

// A fill that ends after a Delete or a Purge leaves nothing, even without a lookup
// in between.
func TestFillThatEndsAfterADelete(t *testing.T) {
	for name, write := range map[string]func(*cache.Cache[string, int]){
		"Delete": func(c *cache.Cache[string, int]) { c.Delete("a") },
		"Purge":  func(c *cache.Cache[string, int]) { c.Purge() },
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, config{}, func(s *story) {
				s.answers(time.Second, nil)
				first := s.later(context.Background())
				write(s.c)
				s.hear(first, "filled 1")
				if v, ok := s.c.Peek("a"); ok {
					t.Errorf("Peek: %d: want none", v)
				}
				s.want("filled 2")
			})
		})
	}
}

// Views show a value to the last instant of its TTL.
func TestViewsUntilTheTTL(t *testing.T) {
	tell(t, config{TTL: time.Minute}, func(s *story) {
		s.c.Set("a", 1)
		views := func(want bool) {
			t.Helper()
			_, ok := s.c.Peek("a")
			if n := len(slices.Collect(keys(s.c))); ok != want || (n == 1) != want {
				t.Errorf("Peek: %v, All: %d: want it there: %v", ok, n, want)
			}
		}
		time.Sleep(time.Minute - 1)
		views(true)
		time.Sleep(1 * time.Nanosecond)
		views(false)
	})
}
