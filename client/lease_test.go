package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

// hold leases a unit of "job".
func hold(t *testing.T, c *client.Client) *client.Held {
	t.Helper()
	h, err := c.Hold(t.Context(), "job", 1)
	must(t, err)
	return h
}

// lost returns whether, and when, a lease is lost within a time.
func lost(h *client.Held, within time.Duration) (after time.Duration, lost bool) {
	start := time.Now()
	select {
	case <-h.Context().Done():
		return time.Since(start), errors.Is(context.Cause(h.Context()), client.ErrLost)
	case <-time.After(within):
		return 0, false
	}
}

// inflight returns the units of a key that are leased.
func (s *site) inflight(key string) int {
	s.t.Helper()
	for _, r := range s.core.Explain(key).Rules {
		if r.Lease != nil {
			return r.Lease.Inflight
		}
	}
	return 0
}

func TestALeaseIsRenewedWhileHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1, 30*time.Second))
		c := s.client(client.Config{})
		p, err := c.Lease("job").Acquire(t.Context(), 1)
		must(t, err)
		time.Sleep(5*time.Minute + time.Second)
		check(t, "in flight", s.inflight("job"), 1)
		check(t, "renewals", s.requests("POST /lease/job/"), 30) // one each third of the TTL
		p.Release(weir.Success)
		p.Release(weir.Success)
		synctest.Wait()
		check(t, "in flight", s.inflight("job"), 0)
		check(t, "returns", s.requests("DELETE /lease/job/"), 1)
		time.Sleep(time.Minute)
		check(t, "renewals", s.requests("POST /lease/job/"), 30)
		st := c.Stats()
		check(t, "held", st.Leases, 0)
		check(t, "lost", st.Lost, 0)
	})
}

func TestLeasesWaitInLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1, 30*time.Second))
		clients := []*client.Client{s.client(client.Config{}), s.client(client.Config{})}
		h := hold(t, clients[0])
		var order []int
		var callers sync.WaitGroup
		for i := range 4 {
			callers.Go(func() {
				must(t, weir.Do(t.Context(), clients[i%2].Lease("job"), func(context.Context) error {
					order = append(order, i)
					time.Sleep(time.Second)
					return nil
				}))
			})
			synctest.Wait()
		}
		h.Release(weir.Success)
		callers.Wait()
		check(t, "order", fmt.Sprint(order), "[0 1 2 3]")
	})
}

// The outcome reaches the server.
func TestOutcomesAreTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(10, time.Minute))
		var queries []string
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "DELETE" {
				queries = append(queries, r.URL.RawQuery)
			}
			s.api.ServeHTTP(w, r)
		})
		c := s.client(client.Config{})
		for _, o := range []weir.Outcome{weir.Success, weir.Ignored, weir.Dropped, weir.TimedOut, weir.Left, weir.Late} {
			hold(t, c).Release(o)
			synctest.Wait()
		}
		check(t, "queries", strings.Join(queries, " "),
			"outcome=success outcome=ignored outcome=dropped outcome=timed_out outcome=left outcome=late")
		check(t, "returned", c.Stats().Returned, 6)
	})
}

// A holder is told when others may have what it holds, and not before.
func TestALostLeaseIsTold(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		fault func(s *site)
		after time.Duration
		lost  bool
	}{
		{"if the server does not know it any more", func(s *site) {
			s.answer(status(404, `{"error":"no such lease"}`))
		}, 10 * time.Second, true},
		{"if the server hangs until it has run out", func(s *site) { s.answer(hang) }, 30 * time.Second, true},
		{"if the token is no good any more", func(s *site) { s.answer(status(401, "")) }, 30 * time.Second, true},
		{"not if the server is away for less than that", func(s *site) {
			s.answer(status(500, ""))
			time.AfterFunc(25*time.Second, func() { s.answer(nil) })
		}, 0, false},
		{"not if the server does not answer renewals now and then", func(s *site) {
			n := 0
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				if n++; n%2 == 1 {
					hang(w, r)
					return
				}
				s.api.ServeHTTP(w, r)
			})
		}, 0, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, atOnce(1, 30*time.Second))
				c := s.client(client.Config{})
				h := hold(t, c)
				tt.fault(s)
				after, gone := lost(h, 5*time.Minute)
				check(t, "lost", gone, tt.lost)
				check(t, "after", after, tt.after)
				st := c.Stats()
				check(t, "held", st.Leases == 0, tt.lost)
				check(t, "counted", st.Lost == 1, tt.lost)
				h.Release(weir.Success)
				synctest.Wait()
				if n := s.requests("DELETE"); (n == 0) != tt.lost {
					t.Errorf("returned %d times", n)
				}
			})
		})
	}
}

// What was waited for counts from the grant, not from when it was asked for.
func TestALeaseThatWasWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1, 3*time.Second))
		c := s.client(client.Config{})
		first := hold(t, c)
		time.AfterFunc(10*time.Second, func() { first.Release(weir.Success) })
		second := hold(t, c)
		check(t, "tokens go up", second.Token() > first.Token(), true)
		check(t, "the first has ended", context.Cause(first.Context()), context.Canceled)
		_, gone := lost(second, time.Minute)
		check(t, "lost", gone, false)
		check(t, "in flight", s.inflight("job"), 1)
	})
}

// Many leases share one goroutine, and the renewals of those that are due at once
// are bounded.
func TestManyLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(300, 3*time.Second))
		var mu sync.Mutex
		now, most := 0, 0
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			count := func(n int) {
				if mu.Lock(); r.Method == "POST" && strings.Count(r.URL.Path, "/") == 3 {
					now += n
					most = max(most, now)
				}
				mu.Unlock()
			}
			count(+1)
			time.Sleep(10 * time.Millisecond)
			s.api.ServeHTTP(w, r)
			count(-1)
		})
		c := s.client(client.Config{})
		var callers sync.WaitGroup
		for range 300 {
			callers.Go(func() { hold(t, c) })
		}
		callers.Wait()
		check(t, "held", c.Stats().Leases, 300)
		time.Sleep(10 * time.Second)
		check(t, "in flight", s.inflight("job"), 300)
		check(t, "lost", c.Stats().Lost, 0)
		must(t, c.Close())
		check(t, "in flight after Close", s.inflight("job"), 0)
		synctest.Wait()
		if most > 32 {
			t.Errorf("%d renewals at once", most)
		}
	})
}

// Those who leave while they wait for a lease hold none.
func TestNoLeaseIsLeftBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1, 30*time.Second))
		c := s.client(client.Config{})
		h := hold(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		for range 5 {
			go func() {
				_, err := c.Hold(ctx, "job", 1)
				check(t, "error", err, context.Canceled)
			}()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		h.Release(weir.Success)
		synctest.Wait()
		check(t, "in flight", s.inflight("job"), 0)
		check(t, "waiting", s.core.Waiting(), 0)
	})
}

// A lease whose answer comes after its caller's time goes back.
func TestALeaseThatComesTooLateGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1, 30*time.Second))
		c := s.client(client.Config{})
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			s.api.ServeHTTP(w, r)
			time.Sleep(20 * time.Millisecond)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := c.Hold(ctx, "job", 1)
		check(t, "error", err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		check(t, "in flight", s.inflight("job"), 0)
	})
}

type valueKey struct{}

// The context of what is held is a child of the caller's.
func TestHeldContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newSite(t, atOnce(1, 30*time.Second)).client(client.Config{})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "b"))
		h, err := c.Hold(ctx, "job", 1)
		must(t, err)
		check(t, "value", h.Context().Value(valueKey{}), any("b"))
		cancel()
		check(t, "ended with its parent", h.Context().Err(), context.Canceled)
		h.Release(weir.Success)
	})
}

// Too late is what a caller with a deadline hears, not one whom MaxWait bounds.
func TestWhoseTimeIsShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t)
		s.answer(status(429, `{"error":"limit reached","reason":"too_late","retry_after_ms":5000}`))
		c := s.client(client.Config{MaxWait: time.Second})
		_, err := c.Lease("job").Acquire(t.Context(), 1)
		check(t, "without a deadline", reason(err), weir.OverLimit)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = c.Lease("job").Acquire(ctx, 1)
		check(t, "with one", reason(err), weir.TooLate)
	})
}

func TestNoRule(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newSite(t, every(1, time.Second)).client(client.Config{})
		_, err := c.Lease("a").Acquire(t.Context(), 1)
		if refused, _ := err.(*client.StatusError); refused == nil || refused.Status != 404 {
			t.Errorf("%v: want a 404", err)
		}
	})
}

// The TTL is the client's, if it says one.
func TestTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1, 30*time.Second))
		h := hold(t, s.client(client.Config{TTL: 3 * time.Second}))
		s.answer(hang)
		after, gone := lost(h, time.Minute)
		check(t, "lost", gone, true)
		check(t, "after", after, 3*time.Second)
	})
}

// While the server is away, a Client has its share of the limit, of which it may
// hold some already. Close takes what is held from its holders.
func TestLocalLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(10, time.Hour))
		c := s.client(client.Config{Share: 0.5})
		held := []*client.Held{hold(t, c), hold(t, c)}
		s.refuses.Store(true)
		s.answer(hang)
		lose(t, c)
		var permits []weir.Permit
		for range 3 {
			p, err := c.Lease("job").Acquire(t.Context(), 1)
			must(t, err)
			permits = append(permits, p)
		}
		_, err := c.Lease("job").Acquire(t.Context(), 1)
		check(t, "reason", reason(err), weir.OverLimit)
		permits[0].Release(weir.Success)
		held[0].Release(weir.Success)
		for range 2 {
			_, err := c.Lease("job").Acquire(t.Context(), 1)
			must(t, err)
		}
		_, err = c.Lease("job").Acquire(t.Context(), 1)
		check(t, "reason", reason(err), weir.OverLimit)
		for range 20 {
			_, err := c.Lease("unheard of").Acquire(t.Context(), 1)
			must(t, err)
		}
		must(t, c.Close())
		check(t, "cause", reason(context.Cause(held[1].Context())), weir.Closed)
	})
}
