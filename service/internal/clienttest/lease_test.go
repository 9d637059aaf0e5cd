package client_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/outcome"
)

// hold leases a unit of "job".
func hold(t *testing.T, c *client.Client) *client.Held {
	t.Helper()
	h, err := c.Hold(t.Context(), "job", 1)
	must(t, err)
	return h
}

// inflight returns the units of a key that are leased.
func (s *site) inflight(key string) int {
	s.t.Helper()
	x, err := s.core.Explain(s.t.Context(), key)
	must(s.t, err)
	for _, r := range x.Rules {
		if r.Lease != nil {
			return r.Lease.Inflight
		}
	}
	return 0
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
		for _, o := range []weir.Outcome{weir.Success, weir.Ignored, weir.Dropped, outcome.TimedOut, outcome.Left, outcome.Late} {
			hold(t, c).Release(o)
			synctest.Wait()
		}
		check(t, "queries", strings.Join(queries, " "),
			"outcome=success outcome=ignored outcome=dropped outcome=timed_out outcome=left outcome=late")
		check(t, "in flight", s.inflight("job"), 0)
	})
}

// A call that is cancelled while it waits holds no lease.
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

// A lease that is granted after the caller's deadline is returned.
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
		check(t, "value", h.Context.Value(valueKey{}), any("b"))
		cancel()
		check(t, "ended with its parent", h.Context.Err(), context.Canceled)
		h.Release(weir.Success)
	})
}

// TooLate is for a call with a deadline, not for one that MaxWait bounds.
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

// While the server is away, a Client has its share of the limit, of which it may
// hold some already. Close takes what is held from its holders.
func TestLocalLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(10, time.Hour))
		c := s.client(client.Config{Instances: 2})
		held := []*client.Held{hold(t, c), hold(t, c)}
		s.network.Refuse()
		s.answer(hang)
		lose(t, c)
		var permits []weir.Permit
		for range 3 {
			p, err := c.Lease("job").Acquire(t.Context(), 1)
			must(t, err)
			permits = append(permits, p.Move())
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
		_, err = c.Lease("unheard of").Acquire(t.Context(), 1)
		check(t, "reason", reason(err), weir.OverLimit)
		must(t, c.Close())
		check(t, "cause", reason(context.Cause(held[1].Context)), weir.Closed)
	})
}
