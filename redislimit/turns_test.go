//go:build system

package redislimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

// The turns of callers that wait for one key, over three limiters, are in the order of their
// arrival at the server. Each caller comes once the one before waits, so the order is certain.
// The turn of the caller i is the token that is refilled at i intervals: none may have it
// earlier. So a caller that returns before another that came earlier is not early: the other's
// program was late.
func TestTurns(t *testing.T) {
	const waiters, interval = 200, 10 * time.Millisecond
	server := redistest.Start(t, "redis-server")
	cfg := patient
	cfg.MaxWait = time.Hour
	var limiters [3]*redislimit.Limiter
	for i := range limiters {
		limiters[i] = limiter(t, client(t, server), gcra.Per(1, interval, 1), cfg)
		reach(t, limiters[i], "another", redislimit.Exact) // connects
	}
	var done atomic.Int64
	came := func() (n int64) { // callers that wait, or have waited
		n = done.Load()
		for _, l := range limiters {
			n += int64(l.Stats().Waiting)
		}
		return n
	}
	began := time.Now()
	take(t, limiters[0], "key", 1)
	var turns [waiters]time.Duration
	var order [waiters]int64
	var group sync.WaitGroup
	for i := range waiters {
		group.Go(func() {
			p, err := limiters[i%len(limiters)].For("key").Acquire(context.Background(), 1)
			turns[i] = time.Since(began)
			if order[i] = done.Add(1); err != nil {
				t.Error(err)
			}
			p.Release(weir.Success)
		})
		for asked := time.Now(); came() <= int64(i); time.Sleep(100 * time.Microsecond) {
			if time.Since(asked) > 30*time.Second {
				t.Fatalf("caller %d does not wait", i)
			}
		}
	}
	group.Wait()
	late := 0
	for i, turn := range turns {
		if due := time.Duration(i+1) * interval; turn < due {
			t.Errorf("caller %d had its turn after %v, before that of its place, %v", i, turn, due)
		}
		if order[i] != int64(i+1) {
			late++
		}
	}
	t.Logf("%d of %d callers returned out of order", late, waiters)
}
