package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/rate"
)

// atOnce is a rate limit that never waits.
func atOnce(count int, per time.Duration, burst int) *rate.Limiter {
	return rate.New(gcra.Per(count, per, burst), rate.Config{Queue: -1})
}

// A limiter refuses fills, never hits.
func TestHitsAreNeverRefused(t *testing.T) {
	tell(t, config{Refresh: cache.Refresh{Limiter: atOnce(1, time.Second, 1)}}, func(s *story) {
		s.want("filled 1")
		for i := range 100 {
			_, err := s.c.Get(context.Background(), fmt.Sprint(i), s.fill)
			var r *weir.Rejection
			if !errors.As(err, &r) || r.Reason != weir.QueueFull && r.Reason != weir.OverRate {
				t.Errorf("%v: want a rejection", err)
			}
			s.want("hit 1")
		}
		s.asked(1)
		time.Sleep(time.Second)
		if got := s.ask(context.Background(), "b"); got != "filled 2" {
			t.Error(got)
		}
		st := s.c.Stats()
		if st.Lookups[cache.Hit] != 100 || st.Lookups[cache.Failed] != 100 || st.Rejected != 100 || st.Fills != 102 || st.Errors != 0 {
			t.Errorf("%+v: want 100 hits, 100 rejected of 102 fills", st)
		}
	})
}

// All callers that wait for a fill wait for one permit.
func TestOnePermitPerFill(t *testing.T) {
	tell(t, config{}, func(s *story) {
		l := rate.NewLimiter(1, 1)
		s.c = newCache(t, config{Refresh: cache.Refresh{Limiter: l}})
		s.want("filled 1")
		s.c.Delete("a")
		var wg sync.WaitGroup
		s.takes(time.Second, func() {
			for range 100 {
				wg.Go(func() { s.gets(2) })
			}
			wg.Wait()
		})
		s.asked(2)
		if n := l.Tokens(); n != 0 {
			t.Errorf("%v tokens are left: want none", n)
		}
	})
}

func (s *story) gets(want int) {
	s.Helper()
	if v, err := s.c.Get(context.Background(), "a", s.fill); v != want || err != nil {
		s.Errorf("%d, %v: want %d", v, err, want)
	}
}

// After any rejection the old value is returned, until StaleIfRejected is over.
func TestStaleIfRejected(t *testing.T) {
	for name, cfg := range map[string]func() config{
		"Limiter": func() config { return config{Refresh: cache.Refresh{Limiter: atOnce(1, 24*time.Hour, 1)}} },
		"PerKey": func() config {
			lim := atOnce(1, 24*time.Hour, 1)
			return config{PerKey: func(string) weir.Limiter { return lim }}
		},
		"fill": func() config { return config{} },
	} {
		for _, kept := range []time.Duration{0, time.Hour} { // rejections are not
			t.Run(fmt.Sprint(name, kept), func(t *testing.T) {
				cfg := cfg()
				cfg.TTL, cfg.StaleIfRejected, cfg.ErrorTTL = time.Minute, time.Hour, kept
				tell(t, cfg, func(s *story) {
					s.want("filled 1")
					time.Sleep(time.Minute)
					if name == "fill" {
						s.answers(0, fmt.Errorf("asking: %w", weir.Reject(weir.OverLimit, 0)))
					}
					for range 3 {
						s.want("stale 1")
						time.Sleep(20*time.Minute - 1)
					}
					s.want("stale 1")
					time.Sleep(3 * time.Nanosecond)
					if got := s.ask(context.Background(), "a"); got == "stale 1" || got[:6] != "failed" {
						t.Errorf("%s: want a rejection", got)
					}
					if st := s.c.Stats(); st.Rejected != 5 || st.Lookups[cache.Stale] != 4 || st.Lookups[cache.Failed] != 1 {
						t.Errorf("%+v: want 5 rejections, of which one is seen", st)
					}
				})
			})
		}
	}
}

// Stale alone is enough for a refresh that is refused, and after it nothing.
func TestRefusedRefresh(t *testing.T) {
	for _, background := range []int{0, 16} {
		cfg := config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute, Background: background, Limiter: atOnce(1, 24*time.Hour, 1)}}
		tell(t, cfg, func(s *story) {
			s.want("filled 1")
			time.Sleep(2*time.Minute - 1)
			s.want("stale 1")
			synctest.Wait()
			s.want("stale 1")
			synctest.Wait()
			time.Sleep(1 * time.Nanosecond)
			if got := s.ask(context.Background(), "a"); got[:6] != "failed" {
				t.Errorf("%s: want a rejection", got)
			}
			s.asked(1)
		})
	}
}

// PerKey is asked before Limiter; if that refuses, it gets its token back.
func TestPerKeyThenLimiter(t *testing.T) {
	tell(t, config{}, func(s *story) {
		one := map[string]*rate.Limiter{"a": atOnce(1, time.Hour, 2), "b": atOnce(1, time.Hour, 0)}
		all := atOnce(1, time.Hour, 1)
		s.c = newCache(t, config{PerKey: func(key string) weir.Limiter {
			if l := one[key]; l != nil {
				return l
			}
			return nil
		}, Refresh: cache.Refresh{Limiter: all}})
		tokens := func(a, every float64) {
			t.Helper()
			if one["a"].Tokens() != a || all.Tokens() != every {
				t.Errorf("tokens: a: %v, all: %v: want %v and %v", one["a"].Tokens(), all.Tokens(), a, every)
			}
		}
		refused := func(key string) {
			t.Helper()
			if _, err := s.c.Get(context.Background(), key, s.fill); !errors.Is(err, weir.ErrRejected) {
				t.Errorf("%s: %v: want it refused", key, err)
			}
		}
		refused("b") // before Limiter is asked
		tokens(2, 1)
		s.want("filled 1")
		tokens(1, 0)
		s.c.Delete("a")
		refused("a")
		tokens(1, 0) // it came back
		refused("c") // PerKey has nothing to say
		time.Sleep(time.Hour)
		if got := s.ask(context.Background(), "c"); got != "filled 2" {
			t.Error(got)
		}
		tokens(2, 0)
	})
}

// Timeout includes the wait for the limiters.
func TestTimeoutOfTheWaitForALimiter(t *testing.T) {
	tell(t, config{}, func(s *story) {
		lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), MaxWait: time.Hour})
		testrig.Must(t, err)
		s.c = newCache(t, config{Refresh: cache.Refresh{Limiter: lim, Timeout: time.Second}})
		p, err := lim.Acquire(context.Background(), 1)
		testrig.Must(t, err)
		begun := time.Now()
		if _, err := s.c.Get(context.Background(), "a", s.fill); err == nil {
			t.Error("want an error")
		}
		if d := time.Since(begun); d > time.Second {
			t.Errorf("it took %v", d)
		}
		p.Release(weir.Ignored)
		s.asked(0)
		s.want("filled 1")
	})
}

// A permit is held while the fill runs, and released when it has ended, however
// it has.
func TestPermitIsReleased(t *testing.T) {
	tell(t, config{}, func(s *story) {
		lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1)})
		testrig.Must(t, err)
		s.c = newCache(t, config{Refresh: cache.Refresh{Limiter: lim}})
		inflight := func(want int) {
			t.Helper()
			if got := lim.Stats().Inflight; got != want {
				t.Errorf("%d in flight: want %d", got, want)
			}
		}
		s.answers(time.Second, nil)
		first := s.later(context.Background())
		inflight(1)
		s.hear(first, "filled 1")
		inflight(0)
		s.c.Delete("a")
		s.c.Get(context.Background(), "a", func(context.Context, string) (int, error) { panic("!") })
		inflight(0)
		s.answers(0, errDown)
		s.want("failed: down")
		inflight(0)
	})
}

// asks is a limiter that tells in which order it is asked.
type asks struct {
	name string
	told *[]string
}

func (a asks) Acquire(context.Context, int) (weir.Permit, error) {
	*a.told = append(*a.told, a.name)
	return weir.Permit{}, nil
}

func TestPerKeyIsAskedFirst(t *testing.T) {
	tell(t, config{}, func(s *story) {
		var told []string
		s.c = newCache(t, config{PerKey: func(key string) weir.Limiter { return asks{"PerKey " + key, &told} }, Refresh: cache.Refresh{Limiter: asks{"Limiter", &told}}})
		s.want("filled 1")
		if !slices.Equal(told, []string{"PerKey a", "Limiter"}) {
			t.Errorf("asked: %q", told)
		}
	})
}
