package client_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Hour), atOnce(10, time.Minute))
		c := s.client(client.Config{MaxWait: time.Hour * 2})
		takes(t, c, "a", 1, 1)
		late, err := c.For("late").Acquire(t.Context(), 1)
		must(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := c.For("a").Acquire(t.Context(), 1)
			ended <- err
		}()
		synctest.Wait()
		must(t, c.Close())
		check(t, "the reason of who waits", reason(<-ended), weir.Closed)
		synctest.Wait()
		check(t, "waiting at the server", s.core.Waiting(), 0)
		for name, f := range map[string]func() error{
			"Take":  func() error { _, err := c.Take(t.Context(), "b", 1); return err },
			"For":   func() error { _, err := c.For("b").Acquire(t.Context(), 1); return err },
			"Lease": func() error { _, err := c.Lease("b").Acquire(t.Context(), 1); return err },
			"Hold":  func() error { _, err := c.Hold(t.Context(), "b", 1); return err },
		} {
			check(t, name, reason(f()), weir.Closed)
		}
		must(t, c.Close())
		late.Use(0)
		late.Release(weir.Success)
		check(t, "dropped", c.Stats().Dropped, 1)
	})
}

// Close returns what it can in a second.
func TestCloseIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1000, time.Hour))
		c := s.client(client.Config{})
		for range 500 {
			hold(t, c)
		}
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(41 * time.Millisecond)
			s.api.ServeHTTP(w, r)
		})
		start := time.Now()
		must(t, c.Close())
		check(t, "took", time.Since(start), time.Second)
		st := c.Stats()
		check(t, "in flight", s.inflight("job"), 500-24*16) // sixteen were returned at a time
		check(t, "dropped", st.Dropped, 500-24*16)
	})
}

// Close takes a second, however long an answer takes; a concurrent Close waits for it.
func TestCloseDoesNotWaitForAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(10, time.Hour))
		c := s.client(client.Config{Timeout: time.Minute})
		first := hold(t, c)
		hold(t, c)
		s.answer(hang)
		first.Release(weir.Success) // is under way
		synctest.Wait()
		start := time.Now()
		go c.Close()
		synctest.Wait()
		must(t, c.Close())
		check(t, "took", time.Since(start), time.Second)
		check(t, "dropped", c.Stats().Dropped, 2)
		check(t, "failures", c.Stats().Failures, 0)
	})
}

// Closed is closed, also if the server is away.
func TestCloseWhileAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(10, time.Minute))
		c := s.client(client.Config{Away: client.Allow})
		h := hold(t, c)
		s.answer(hang)
		lose(t, c)
		start := time.Now()
		must(t, c.Close())
		check(t, "took", time.Since(start), 0)
		check(t, "cause", reason(context.Cause(h.Context)), weir.Closed)
		_, err := c.Take(t.Context(), "a", 1)
		check(t, "Take", reason(err), weir.Closed)
		_, err = c.Lease("a").Acquire(t.Context(), 1)
		check(t, "Lease", reason(err), weir.Closed)
	})
}

// Close waits for OnAway, but not for longer than a second.
func TestCloseWaitsForOnAway(t *testing.T) {
	for lasts, want := range map[time.Duration]time.Duration{
		0: 0, 300 * time.Millisecond: 300 * time.Millisecond, time.Hour: time.Second,
	} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, every(1, time.Hour))
			var returned atomic.Bool
			c := s.client(client.Config{Away: client.Allow, OnAway: func(error) {
				time.Sleep(lasts)
				returned.Store(true)
			}})
			s.answer(status(500, ""))
			lose(t, c)
			start := time.Now()
			must(t, c.Close())
			check(t, "took", time.Since(start), want)
			check(t, "OnAway has returned", returned.Load(), lasts == want)
			time.Sleep(lasts)
		})
	}
}
