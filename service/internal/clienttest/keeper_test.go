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

// lost returns whether, and when, a lease is lost within a time.
func lost(h *client.Held, within time.Duration) (after time.Duration, lost bool) {
	start := time.Now()
	select {
	case <-h.Context.Done():
		return time.Since(start), errors.Is(context.Cause(h.Context), client.ErrLost)
	case <-time.After(within):
		return 0, false
	}
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

// However short a time to live the server answers with, a lease is renewed at most ten
// times a second. A lease that is over sooner is lost when it is over.
func TestLeasesThatAreShort(t *testing.T) {
	for _, tt := range []struct {
		ttl      time.Duration
		renewals int // in ten seconds
		lost     time.Duration
	}{
		{time.Millisecond, 0, time.Millisecond},
		{100 * time.Millisecond, 0, 100 * time.Millisecond},
		{150 * time.Millisecond, 99, 0},
		{300 * time.Millisecond, 99, 0},
		{900 * time.Millisecond, 33, 0},
	} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, atOnce(1, time.Minute))
			answered := status(200, fmt.Sprintf(`{"lease_id":"a","token":1,"ttl_ms":%d,"limit":1}`, tt.ttl.Milliseconds()))
			s.answer(answered)
			c := s.client(client.Config{})
			h := hold(t, c)
			after, gone := lost(h, 10*time.Second-time.Millisecond)
			check(t, fmt.Sprint(tt.ttl, " is lost"), gone, tt.lost > 0)
			check(t, fmt.Sprint(tt.ttl, " is lost after"), after, tt.lost)
			check(t, fmt.Sprint("renewals of ", tt.ttl), s.requests("POST /lease/job/"), tt.renewals)
			h.Release(weir.Success)
		})
	}
}

// Failed renewals of a short lease are not repeated more often than a hundred times a second.
func TestShortLeasesThatCannotBeRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1, 150*time.Millisecond))
		c := s.client(client.Config{})
		h := hold(t, c)
		s.answer(status(500, ""))
		after, gone := lost(h, time.Minute)
		check(t, "lost", gone, true)
		check(t, "lost after", after, 150*time.Millisecond)
		check(t, "renewals", s.requests("POST /lease/job/"), 4) // after 100, 115, 130 and 145 ms
	})
}

// What was waited for counts from the grant, not from when it was asked for.
func TestALeaseThatWasWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1, 3*time.Second))
		c := s.client(client.Config{})
		first := hold(t, c)
		time.AfterFunc(10*time.Second, func() { first.Release(weir.Success) })
		second := hold(t, c)
		check(t, "tokens go up", second.Token > first.Token, true)
		check(t, "the first has ended", context.Cause(first.Context), context.Canceled)
		_, gone := lost(second, time.Minute)
		check(t, "lost", gone, false)
		check(t, "in flight", s.inflight("job"), 1)
	})
}

// Many leases share one goroutine, and the number of concurrent renewals is bounded.
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
