package server_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// FuzzLine lets requests of one key arrive, wait and leave according to the input. A
// model bucket that sees only the grants must allow each of them, in order of
// arrival, and have as many tokens at the end.
func FuzzLine(f *testing.F) {
	f.Add([]byte{0x01, 0x41, 0x41, 0x82, 0x41, 0xc3, 0x41, 0x83})
	f.Add([]byte{0x43, 0x43, 0x41, 0xc0, 0x85, 0x41, 0x01, 0xc1, 0x8f})
	f.Fuzz(func(t *testing.T, ops []byte) {
		ops = ops[:min(len(ops), 64)]
		bubble(t, func(t *testing.T) {
			const burst, every = 3, time.Second
			q := queued(quota(burst, burst*every, config.GCRA), 20)
			d := newDesk(t, server.Config{}, q)
			model, bucket, start := gcra.Per(burst, burst*every, burst), gcra.Bucket(0), time.Now()
			var mu sync.Mutex
			last := -1
			granted := func(caller, n int) { // in the order of time
				mu.Lock()
				defer mu.Unlock()
				b, ok := model.Allow(bucket, time.Since(start), n)
				if bucket = b; !ok {
					t.Errorf("%v: %d tokens are more than there are", time.Since(start), n)
				}
				if caller >= 0 && caller < last {
					t.Errorf("%d was granted after %d", caller, last)
				}
				last = max(last, caller)
			}
			var leave []context.CancelFunc
			for i, op := range ops {
				n := int(op & 0x3f)
				switch op >> 6 {
				case 0:
					if n = n % 5; d.ask("a", n).OK && n > 0 {
						granted(-1, n)
					}
				case 1:
					ctx, cancel := context.WithCancel(t.Context())
					leave = append(leave, cancel)
					n = n%burst + 1
					go func() {
						var v decider.Verdict
						if err := d.Wait(ctx, &decider.Request{Key: "a", N: n}, &v); err == nil && v.OK {
							granted(i, n)
						}
					}()
				case 2:
					time.Sleep(time.Duration(n) * every / 7)
				case 3:
					if len(leave) > 0 {
						leave[n%len(leave)]()
					}
				}
				synctest.Wait()
			}
			time.Sleep(100 * burst * every)
			synctest.Wait()
			if d.Waiting() > 0 {
				t.Errorf("%d still wait", d.Waiting())
			}
			d.allows("a", burst, burst+1)
			for _, cancel := range leave {
				cancel()
			}
		})
	})
}
