package rate_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/rate"
)

// A batch gets what there is; all batches together get no more than the burst and the refill.
func TestAllowAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := rate.New(rate.Per(10, time.Second, 7), rate.Config{})
		for _, tt := range []struct {
			after   time.Duration
			n, want int
		}{{0, 0, 0}, {0, 3, 3}, {0, 100, 4}, {0, 100, 0}, {250 * time.Millisecond, 100, 2}, {time.Hour, 8, 7}} {
			time.Sleep(tt.after)
			if got := lim.AllowAtMost(tt.n); got != tt.want {
				t.Errorf("%d after %v: %d: want %d", tt.n, tt.after, got, tt.want)
			}
		}
		time.Sleep(time.Hour)
		var sum atomic.Int64
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { sum.Add(int64(lim.AllowAtMost(3))) })
		}
		all.Wait()
		if sum.Load() != 7 {
			t.Errorf("%d together: want 7", sum.Load())
		}
	})
}
