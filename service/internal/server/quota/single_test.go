package quota

import (
	"bytes"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
)

// TestSingleTakesEachTokenOnce: requests take and return tokens while the quota changes
// from one that keeps its tokens to another.
func TestSingleTakesEachTokenOnce(t *testing.T) {
	const burst = 400_000
	q := gcra.Per(0, 0, burst)
	s := newSingle(q)
	var taken atomic.Int64
	var takers, changer sync.WaitGroup
	done := make(chan struct{})
	changer.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				s.SetQuota(q)
			}
		}
	})
	for range 4 {
		takers.Go(func() {
			for s.TakeAt(0, time.Now(), 3).OK {
				taken.Add(int64(s.SettleAt(0, time.Now(), 3, 2)))
			}
		})
	}
	takers.Wait()
	close(done)
	changer.Wait()
	if left := int64(s.TokensAt("", time.Now())); taken.Load()+left != burst {
		t.Errorf("%d were taken, %d are left: want %d in all", taken.Load(), left, burst)
	}
}

// TestSingleSnapshot restores buckets after a second, under the same quota.
func TestSingleSnapshot(t *testing.T) {
	for name, tt := range map[string]struct {
		quota    gcra.Quota
		was, n   int
		want     float64
		wantOver float64 // under a quota with twice the burst
	}{
		"full":           {gcra.Per(1, time.Second, 10), 0, 0, 10, 20},
		"some":           {gcra.Per(1, time.Second, 10), 5, 5, 6.5, 6.5},
		"debt":           {gcra.Per(1, time.Second, 10), 5, 25, -13.5, -13.5},
		"no refill":      {gcra.Per(0, time.Second, 10), 5, 5, 5, 6},
		"without limits": {gcra.Unlimited(), 5, 5, math.Inf(1), 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := newSingle(tt.quota)
				from.TakeAt(0, time.Now(), tt.was)
				if n := from.SettleAt(0, time.Now(), tt.was, tt.n); n != tt.n {
					t.Errorf("charged %d, want %d", n, tt.n)
				}
				time.Sleep(time.Second / 2)
				var b bytes.Buffer
				if err := from.Snapshot(&b); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				for q, want := range map[gcra.Quota]float64{tt.quota: tt.want, gcra.Per(1, time.Second, 20): tt.wantOver} {
					s := newSingle(q)
					if err := s.Restore(bytes.NewReader(b.Bytes())); err != nil {
						t.Fatal(err)
					}
					if got := s.TokensAt("", time.Now()); got != want {
						t.Errorf("%v tokens under %+v, want %v", got, q, want)
					}
					if err := s.Restore(bytes.NewReader(b.Bytes()[:b.Len()-1])); err == nil {
						t.Error("a part of a snapshot was restored")
					}
				}
			})
		})
	}
}
