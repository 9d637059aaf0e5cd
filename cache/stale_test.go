package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
)

// Within Stale, one caller waits for the new value, and the others get the old
// one at once.
func TestStaleWhileOneRefreshes(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(time.Second, nil)
		first := s.later(context.Background())
		for range 100 {
			s.takes(0, func() { s.want("stale 1") })
		}
		s.hear(first, "filled 2")
		s.want("hit 2")
		s.asked(2)
		time.Sleep(2*time.Minute - 1)
		s.answers(2*time.Second, nil)
		first = s.later(context.Background())
		s.want("stale 2")
		time.Sleep(1 * time.Nanosecond) // Stale is over: all callers wait
		second := s.later(context.Background())
		s.takes(2*time.Second-1, func() { s.hear(first, "filled 3") })
		s.hear(second, "coalesced 3")
	})
}

// A value of NoStale is not returned after its TTL: not while one caller refreshes it, nor
// in place of an error or a rejection, nor by GetAll. Others are.
func TestNoStale(t *testing.T) {
	for _, background := range []int{0, 4} {
		synctest.Test(t, func(t *testing.T) {
			c := newCache(t, config{
				TTL: time.Minute, NoStale: func(key string, _ int) bool { return key == "strict" },
				Refresh: cache.Refresh{Stale: time.Minute, StaleIfError: time.Hour, StaleIfRejected: time.Hour, ErrorTTL: time.Second, Background: background},
			})
			for _, fault := range []error{errDown, &weir.Rejection{Reason: weir.OverRate}, context.DeadlineExceeded} {
				c.Set("strict", 1)
				c.Set("lax", 1)
				time.Sleep(time.Minute - 1)
				if v, status, err := c.Lookup(t.Context(), "strict", nil); v != 1 || status != cache.Hit || err != nil {
					t.Fatalf("while it is fresh: %d, %v, %v", v, status, err)
				}
				time.Sleep(time.Nanosecond)
				for _, wait := range []time.Duration{0, 2 * time.Minute} {
					time.Sleep(wait)
					fail := func(context.Context, string) (int, error) { return 0, fault }
					if v, status, err := c.Lookup(t.Context(), "lax", fail); v != 1 || status != cache.Stale || err != nil {
						t.Errorf("%v: %d, %v, %v: want the stale value", fault, v, status, err)
					}
					for range 2 { // the error is kept, if it may be
						if v, status, err := c.Lookup(t.Context(), "strict", fail); status == cache.Stale || !errors.Is(err, fault) {
							t.Errorf("%v: %d, %v, %v: want the error", fault, v, status, err)
						}
					}
					all, err := c.GetAll(t.Context(), []string{"strict"}, func(context.Context, []string) (map[string]int, error) { return nil, fault })
					if len(all) > 0 || !errors.Is(err, fault) {
						t.Errorf("%v: GetAll: %v, %v: want the error", fault, all, err)
					}
				}
				time.Sleep(time.Second)
				two := func(context.Context, string) (int, error) { return 2, nil }
				if v, status, err := c.Lookup(t.Context(), "strict", two); v != 2 || status != cache.Filled || err != nil {
					t.Errorf("%d, %v, %v: want a new value", v, status, err)
				}
			}
		})
	}
}

func TestThunderingHerdAtExpiry(t *testing.T) {
	for _, stale := range []time.Duration{0, time.Minute} {
		tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: stale}}, func(s *story) {
			s.answers(time.Second, nil)
			s.want("filled 1")
			var wg sync.WaitGroup
			for i := range 10_000 { // around the expiry, and during the fill
				wg.Go(func() {
					time.Sleep(59*time.Second + time.Duration(i)*200*time.Microsecond)
					if _, err := s.c.Get(context.Background(), "a", s.fill); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			s.asked(2)
			st := s.c.Stats()
			if want := uint64(5000); stale == 0 && (st.Lookups[cache.Coalesced] != want-1 || st.Lookups[cache.Stale] != 0) || stale > 0 && (st.Lookups[cache.Stale] != want-1 || st.Lookups[cache.Coalesced] != 0) {
				t.Errorf("%+v: want one of %d who comes late to fill, and the rest to be with him", st, want)
			}
		})
	}
}

// A refresh fails: the old value stays, and the next caller tries again; not
// before the time that ErrorTTL gives, if there is one.
func TestRefreshFails(t *testing.T) {
	for _, pause := range []time.Duration{0, 10 * time.Second} {
		for _, background := range []int{0, 16} {
			cfg := config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute, ErrorTTL: pause, Background: background}}
			tell(t, cfg, func(s *story) {
				s.want("filled 1")
				time.Sleep(time.Minute)
				s.answers(0, errDown)
				want := int64(1)
				for range 3 {
					for range 3 {
						s.want("stale 1")
						synctest.Wait()
						if pause == 0 {
							want++
						}
					}
					if pause > 0 {
						want++
					}
					s.asked(want)
					time.Sleep(10 * time.Second)
				}
				time.Sleep(30 * time.Second)
				s.want("failed: down") // Stale is over
			})
		}
	}
}

func TestBackgroundNobodyWaits(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute, Background: 16}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(time.Second, nil)
		for range 100 {
			s.takes(0, func() { s.want("stale 1") })
		}
		synctest.Wait()
		s.asked(2)
		time.Sleep(time.Second)
		synctest.Wait()
		s.want("hit 2")
		if st := s.c.Stats(); st.Lookups[cache.Filled] != 1 || st.Fills != 2 || st.Lookups[cache.Stale] != 100 {
			t.Errorf("%+v: want a second fill that is nobody's", st)
		}
		time.Sleep(2 * time.Minute)
		s.takes(time.Second, func() { s.want("filled 3") }) // too old for that
	})
}

// A background refresh continues after the end of the caller that started it, and
// has the values of its context.
func TestBackgroundOutlivesItsCaller(t *testing.T) {
	type name struct{}
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute, Background: 16}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), name{}, "x"))
		v, err := s.c.Get(ctx, "a", func(ctx context.Context, _ string) (int, error) {
			time.Sleep(time.Second)
			if ctx.Value(name{}) != "x" || ctx.Err() != nil {
				t.Errorf("value %v, err %v", ctx.Value(name{}), ctx.Err())
			}
			return 7, nil
		})
		cancel()
		if v != 1 || err != nil {
			t.Errorf("%d, %v: want the old value", v, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.want("hit 7")
	})
}

func TestRefreshesAreBounded(t *testing.T) {
	for _, bound := range []int{16, 3} {
		tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Hour, Background: bound}}, func(s *story) {
			for i := range 100 {
				s.c.Set(fmt.Sprint(i), -1)
			}
			time.Sleep(time.Minute)
			s.answers(time.Second, nil)
			for round := range 2 {
				for i := range 50 {
					s.takes(0, func() {
						if got := s.ask(context.Background(), fmt.Sprint(50*round+i)); got != "stale -1" {
							t.Errorf("%d: %s", i, got)
						}
					})
				}
				synctest.Wait()
				s.asked(int64((round + 1) * bound))
				time.Sleep(time.Second)
				synctest.Wait()
			}
			if got := s.ask(context.Background(), "49"); got != "stale -1" { // a later caller tries
				t.Error(got)
			}
			synctest.Wait()
			s.asked(int64(2*bound + 1))
		})
	}
}

// A background refresh that panics affects no caller.
func TestBackgroundPanics(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute, Background: 1}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		for i := range 3 {
			s.c.Get(context.Background(), "a", func(context.Context, string) (int, error) { panic("!") })
			synctest.Wait()
			if st := s.c.Stats(); st.Errors != uint64(i+1) {
				t.Errorf("%+v: want %d errors", st, i+1)
			}
		}
		s.want("stale 1")
		synctest.Wait()
		s.want("hit 2")
	})
}

func TestDeleteDuringABackgroundRefresh(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute, Background: 16}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(time.Second, nil)
		s.want("stale 1")
		synctest.Wait()
		s.c.Delete("a")
		s.hear(s.later(context.Background()), "filled 3")
		s.want("hit 3")
	})
}

// Close ends the refreshes, and returns when their fills have returned, also slow
// ones.
func TestClose(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Hour, Background: 16}}, func(s *story) {
		s.c.Set("b", -1)
		s.want("filled 1")
		time.Sleep(time.Minute)
		var ended atomic.Int64
		slow := func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended.Add(1)
			return 0, ctx.Err()
		}
		for _, key := range []string{"a", "b"} {
			s.c.Get(context.Background(), key, slow)
		}
		synctest.Wait()
		s.takes(time.Second, s.c.Close)
		if ended.Load() != 2 {
			t.Errorf("%d of 2 refreshes had ended when Close returned", ended.Load())
		}
		s.takes(0, s.c.Close)
		s.answers(time.Second, nil)
		synctest.Wait()
		s.takes(time.Second, func() { s.want("filled 2") }) // for themselves
		s.want("hit 2")
		time.Sleep(time.Minute)
		first := s.later(context.Background())
		s.want("stale 2")
		s.hear(first, "filled 3")
	})
}

// A caller that has joined a background refresh gets its value, also after Close.
func TestCloseLeavesWaitingCallers(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Second, Background: 16}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(2*time.Second, nil)
		s.want("stale 1")
		time.Sleep(time.Second)
		joined := s.later(context.Background())
		go s.c.Close()
		s.hear(joined, "coalesced 2")
		s.want("hit 2")
	})
}

func TestCloseTogetherWithRefreshes(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			c := newCache(t, cache.Config[int, int]{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Hour, Background: 16}})
			for i := range 8 {
				c.Set(i, -1)
			}
			time.Sleep(time.Minute)
			var running, closed atomic.Int64
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					v, err := c.Get(context.Background(), i, func(context.Context, int) (int, error) {
						running.Add(1)
						time.Sleep(time.Second)
						running.Add(-1)
						return i, nil
					})
					if err != nil || v != -1 && (v != i || closed.Load() == 0) {
						t.Errorf("of %d: %d, %v", i, v, err)
					}
				})
				if i%3 == 0 {
					wg.Go(func() {
						closed.Add(1)
						c.Close()
					})
				}
			}
			wg.Wait()
			if n := running.Load(); n != 0 {
				t.Errorf("%d fills go on", n)
			}
		})
	}
}

// Early refreshes at x before the expiry happen with the probability that
// Δ·β·ln(1/rand) >= x: exp(-x/(Δ·β)).
func TestEarlyHasItsProbability(t *testing.T) {
	const took, ttl, n = time.Second, time.Minute, 4000
	for _, beta := range []float64{1, 2.5} {
		for _, x := range []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				c := newCache(t, cache.Config[int, int]{TTL: ttl, Refresh: cache.Refresh{Early: beta}})
				var fills int
				fill := func(context.Context, int) (int, error) { fills++; return fills, nil }
				slow := func(context.Context, int) (int, error) { time.Sleep(took); return 0, nil }
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() { c.Get(context.Background(), i, slow) })
				}
				wg.Wait()
				time.Sleep(ttl - x)
				for i := range n {
					v, s, err := c.Lookup(context.Background(), i, fill)
					if err != nil || s == cache.Hit && v != 0 || s == cache.Filled && v != fills || s != cache.Hit && s != cache.Filled {
						t.Fatalf("%d, %v, %v", v, s, err)
					}
				}
				p := math.Exp(-x.Seconds() / (took.Seconds() * beta))
				if off := math.Abs(float64(fills) - n*p); off > 6*math.Sqrt(n*p*(1-p)) {
					t.Errorf("β %v, %v before the end: %d of %d are refreshed: want %.0f", beta, x, fills, n, n*p)
				}
			})
		}
	}
}

func TestWithoutEarlyNothingIsEarly(t *testing.T) {
	tell(t, config{TTL: time.Hour}, func(s *story) {
		s.answers(time.Minute, nil)
		s.want("filled 1")
		time.Sleep(time.Hour - 1)
		for range 1000 {
			s.want("hit 1")
		}
	})
}

// A value that was set took no time, and is not refreshed early.
func TestSetIsNeverEarly(t *testing.T) {
	tell(t, config{TTL: time.Hour, Refresh: cache.Refresh{Early: 1e6}}, func(s *story) {
		s.c.Set("a", 5)
		time.Sleep(time.Hour - 1)
		for range 1000 {
			s.want("hit 5")
		}
	})
}

// One refreshes early, and waits; the others have a hit. If he fails, so does
// he.
func TestEarlyInTheForeground(t *testing.T) {
	tell(t, config{TTL: time.Hour, Refresh: cache.Refresh{Early: 1e9, ErrorTTL: time.Second}}, func(s *story) { // at once
		s.answers(time.Second, nil)
		s.want("filled 1")
		first := s.later(context.Background())
		s.takes(0, func() { s.want("hit 1") })
		s.hear(first, "filled 2")
		s.answers(0, errDown)
		s.want("hit 2")
		s.asked(3)
		s.want("hit 2")
		s.asked(3) // ErrorTTL
		time.Sleep(time.Second)
		s.answers(0, weir.Reject(weir.OverRate, 0))
		s.want("hit 2")
		s.want("hit 2")
		s.asked(5)
	})
}

func TestEarlyInTheBackgroundNobodyWaits(t *testing.T) {
	tell(t, config{TTL: time.Hour, Refresh: cache.Refresh{Early: 1e9, Background: 16}}, func(s *story) {
		s.answers(time.Second, nil)
		s.want("filled 1")
		for range 100 {
			s.takes(0, func() { s.want("hit 1") })
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.asked(2)
		s.takes(0, func() { s.want("hit 2") })
	})
}

// A fill that ends its goroutine while others get the old value: the next
// caller tries again.
func TestRefreshThatEndsItsGoroutine(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		go s.c.Get(context.Background(), "a", func(context.Context, string) (int, error) {
			runtime.Goexit()
			return 0, nil
		})
		synctest.Wait()
		s.want("filled 2")
	})
}

// A refresh in the background leaves nothing when it has ended.
func TestRefreshesLeaveNothing(t *testing.T) {
	tell(t, config{TTL: 1, Refresh: cache.Refresh{Stale: time.Hour, Background: 16}}, func(s *story) {
		refresh := func(n int) {
			for range n {
				time.Sleep(1 * time.Nanosecond)
				s.ask(context.Background(), "a")
				synctest.Wait()
			}
		}
		refresh(100)
		before := heap()
		refresh(10_000)
		if after := heap(); after > before+100_000 {
			t.Errorf("10,000 refreshes have left %d bytes", after-before)
		}
		s.asked(10_100)
	})
}

// A kept error that has expired is not an old value: all callers wait.
func TestErrorIsNeverStale(t *testing.T) {
	for _, background := range []int{0, 16} {
		tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Hour, ErrorTTL: time.Second, Background: background}}, func(s *story) {
			s.answers(0, errDown)
			s.want("failed: down")
			time.Sleep(time.Second)
			s.answers(time.Second, nil)
			first, second := s.later(context.Background()), s.later(context.Background())
			s.hear(first, "filled 2")
			s.hear(second, "coalesced 2")
		})
	}
}
