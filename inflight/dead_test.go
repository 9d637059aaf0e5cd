package inflight_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// A backend that dies refuses connections, or takes them and says nothing: the limit falls, and
// comes back with the backend.
func TestDeadBackend(t *testing.T) {
	for _, tt := range []struct {
		name  string
		aimd  bool // else the limit finds itself
		takes time.Duration
		err   error
	}{
		{"refused", true, 0, syscall.ECONNREFUSED},
		{"silent", true, 200 * time.Millisecond, os.ErrDeadlineExceeded},
		{"silent, auto", false, 200 * time.Millisecond, os.ErrDeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cfg inflight.Config
				if tt.aimd {
					var err error
					if cfg.Algorithm, err = limit.NewAIMD(limit.Config{Initial: 40}, 0); err != nil {
						t.Fatal(err)
					}
				}
				l, err := inflight.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				var dead atomic.Bool
				call := func(context.Context) error {
					if dead.Load() {
						time.Sleep(tt.takes)
						return fmt.Errorf("querying 10.0.0.1:5432: %w", tt.err)
					}
					time.Sleep(50 * time.Millisecond)
					return nil
				}
				var callers sync.WaitGroup
				offer := func(seconds int) {
					for range seconds * 500 {
						callers.Go(func() { _ = weir.Do(t.Context(), l, call) })
						time.Sleep(2 * time.Millisecond)
					}
				}
				offer(10)
				well := l.Stats().Limit
				dead.Store(true)
				offer(3)
				if got := l.Stats(); got.Limit > well/2 {
					t.Errorf("limit %d after %d, %d dropped: want it lower", got.Limit, well, got.Outcomes[weir.Dropped])
				}
				dead.Store(false)
				offer(20)
				if got := l.Stats().Limit; got < 25 {
					t.Errorf("limit %d: want room for the 25 at work", got)
				}
				callers.Wait()
			})
		})
	}
}
