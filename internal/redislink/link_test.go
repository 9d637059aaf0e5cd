package redislink

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/waitq"
)

// Close right after tokens were given back: the server gets them, in as many pipelines as that
// takes. With a server that is silent, Close returns all the same.
func TestClose(t *testing.T) {
	for _, c := range []struct {
		name    string
		server  func(ctx context.Context) error
		arrive  int
		atLeast time.Duration
	}{
		{"served", func(ctx context.Context) error { waitq.Sleep(ctx, 20*time.Millisecond); return ctx.Err() }, 3, 40 * time.Millisecond},
		{"silent", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 0, 0},
		{"blocked", func(context.Context) error { time.Sleep(3 * time.Second); return nil }, 1, 2 * parting},
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
				}, Timeout: 100 * time.Millisecond})
				lane, arrived := l.Lane("key"), 0
				send := func() {
					lane.Send(&Call{Script: NewScript(""), Then: func(a Answer) {
						if a.Err == nil {
							arrived++
						}
					}})
				}
				send()
				synctest.Wait() // the first is in flight, and the others wait for it
				send()
				send()
				began := time.Now()
				l.Close()
				if took := time.Since(began); took < c.atLeast || took > 2*parting {
					t.Errorf("Close took %v", took)
				}
				if _, err := lane.Ask(t.Context(), &Call{Script: NewScript("")}); !errors.Is(err, ErrClosed) {
					t.Errorf("a call after Close: %v", err)
				}
				time.Sleep(3 * time.Second) // until the blocked one ends
				synctest.Wait()
				if arrived != c.arrive {
					t.Errorf("%d of 3 arrived, want %d", arrived, c.arrive)
				}
			})
		})
	}
}
