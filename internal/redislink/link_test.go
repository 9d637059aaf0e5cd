package redislink

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/waitq"
)

// Close right after tokens were given back: the server gets them, in as many pipelines as that
// takes. With a server that does not answer, Close returns all the same, and no answer is missing.
func TestClose(t *testing.T) {
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, c := range []struct {
		name    string
		server  func(ctx context.Context) error
		timeout time.Duration
		arrive  int64
		takes   time.Duration
	}{
		{"served", func(ctx context.Context) error { waitq.Sleep(ctx, 20*time.Millisecond); return ctx.Err() }, 100 * time.Millisecond, 3, 40 * time.Millisecond},
		{"slow", func(context.Context) error { time.Sleep(120 * time.Millisecond); return nil }, 100 * time.Millisecond, 3, 240 * time.Millisecond},
		{"silent", silent, 100 * time.Millisecond, 0, 200 * time.Millisecond},
		{"silent, and a long timeout", silent, time.Minute, 0, parting},
		{"blocked", func(context.Context) error { time.Sleep(3 * time.Second); return nil }, 100 * time.Millisecond, 1, 2 * parting},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(Config{Send: func(ctx context.Context, calls []*Call, _ bool) []Answer {
					err := c.server(ctx)
					answers := make([]Answer, len(calls))
					for i := range answers {
						answers[i].Err = err
					}
					return answers
				}, Timeout: c.timeout})
				lane := l.Lane("key")
				var arrived, answered atomic.Int64
				send := func() {
					lane.Send(&Call{Script: NewScript(""), Then: func(a Answer) {
						if answered.Add(1); a.Err == nil {
							arrived.Add(1)
						}
					}})
				}
				send()
				synctest.Wait() // the first is in flight, and the others wait for it
				send()
				send()
				began := time.Now()
				l.Close()
				if took := time.Since(began); took != c.takes {
					t.Errorf("Close took %v, want %v", took, c.takes)
				}
				if _, err := lane.Ask(t.Context(), &Call{Script: NewScript("")}); !errors.Is(err, ErrClosed) {
					t.Errorf("a call after Close: %v", err)
				}
				time.Sleep(3 * time.Second) // until the blocked one ends
				synctest.Wait()
				if arrived.Load() != c.arrive || answered.Load() != 3 {
					t.Errorf("%d of 3 were answered, and %d arrived, want %d", answered.Load(), arrived.Load(), c.arrive)
				}
			})
		})
	}
}
