package client_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// A caller that leaves while its request is under way, or about to be, costs no
// token.
func TestNoTokenIsLostWhenCallersLeave(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		leave func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(10*time.Millisecond, cancel)
			return ctx, cancel
		}},
		{"out of time", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 10*time.Millisecond)
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(100, time.Hour))
				s.answer(func(w http.ResponseWriter, r *http.Request) {
					s.api.ServeHTTP(w, r)
					time.Sleep(20 * time.Millisecond) // the answer is under way
				})
				c := s.client(client.Config{Away: client.Deny})
				var callers sync.WaitGroup
				for i := range 20 {
					callers.Go(func() {
						ctx, cancel := tt.leave(t.Context())
						defer cancel()
						if i%2 == 0 {
							_, err := c.Take(ctx, "a", 2)
							check(t, "error", err, ctx.Err())
						} else {
							_, err := c.For("a").Acquire(ctx, 2)
							check(t, "error", err, ctx.Err())
						}
					})
				}
				callers.Wait()
				time.Sleep(time.Second)
				check(t, "left", s.left("a"), 100)
			})
		})
	}
}

// A call that times out as its turn comes returns the tokens.
func TestATurnAtTheDeadlineIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Second))
		c := s.client(client.Config{})
		takes(t, c, "a", 1, 1)
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			s.api.ServeHTTP(w, r)
			time.Sleep(20 * time.Millisecond)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 1010*time.Millisecond)
		defer cancel()
		_, err := c.For("a").Acquire(ctx, 1)
		check(t, "error", err, context.DeadlineExceeded)
		time.Sleep(100 * time.Millisecond)
		check(t, "left", s.left("a"), 1)
	})
}

// A call that leaves the queue makes room at once.
func TestWhoLeavesTheLineMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Second))
		c := s.client(client.Config{})
		takes(t, c, "a", 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = c.For("a").Acquire(ctx, 1) }()
		synctest.Wait()
		done := make(chan time.Time)
		go func() {
			_, err := c.For("a").Acquire(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			done <- time.Now()
		}()
		synctest.Wait()
		start := time.Now()
		check(t, "waiting", s.core.Waiting(), 2)
		cancel()
		synctest.Wait()
		check(t, "waiting", s.core.Waiting(), 1)
		check(t, "the turn of the second", (<-done).Sub(start), time.Second)
	})
}
