package quota

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A rig has the buckets and the queue of one rule.
type rig struct {
	Buckets
	*Queue
	clock *clock.Clock
	stats waiting.Stats
}

func newRig(t *testing.T, q config.Quota, per config.Per) *rig {
	t.Helper()
	c := clock.New()
	b, err := New(c, q, per, MinMemory)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Buckets: b, Queue: new(Queue), clock: c}
	r.Queue.Init(c, waiting.NewRoom(100), b)
	return r
}

func (r *rig) take(n int) {
	r.Take("a", r.Fingerprint("a"), r.clock.Now(), n, 0, false)
}

func (r *rig) wait(ctx context.Context, limit int) error {
	_, err := r.Wait(ctx, &Request{Bucket: "a", N: 1, OwnLimit: limit, Limit: limit, Stats: &r.stats, MaxQueue: 100})
	return err
}

// TestTurnsServedLateAreNotLost: if the timer fires five turns late, five requests
// have their turn at once, though the bucket holds one token.
func TestTurnsServedLateAreNotLost(t *testing.T) {
	for _, a := range []config.Algorithm{config.GCRA, config.Fixed} {
		t.Run(string(a), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { servedLate(t, a) }) })
	}
}

func servedLate(t *testing.T, a config.Algorithm) {
	r := newRig(t, config.Quota{Rate: config.Rate{Count: 1, Period: time.Second}, Algorithm: a}, "")
	r.take(1)
	ended := make(chan time.Duration, 8)
	start := time.Now()
	for range 8 {
		go func() {
			if err := r.wait(t.Context(), 0); err == nil {
				ended <- time.Since(start)
			}
		}()
	}
	synctest.Wait()
	r.Queue.timer.Snooze(time.Hour)
	time.Sleep(5*time.Second + time.Second/2)
	r.wake()
	synctest.Wait()
	if n := len(ended); n != 5 {
		t.Errorf("%d had their turn, want 5", n)
	}
	time.Sleep(3 * time.Second)
	synctest.Wait()
	for range 5 {
		<-ended
	}
	for i := range 3 {
		if at, want := <-ended, time.Duration(6+i)*time.Second; at != want {
			t.Errorf("turn %d came after %v, want %v", 6+i, at, want)
		}
	}
}

// TestLateTurnOfAnOwnLimit: at its time there were too few tokens, but now there are
// enough.
func TestLateTurnOfAnOwnLimit(t *testing.T) {
	for _, per := range []config.Per{"", config.PerRule} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, config.Quota{Rate: config.Rate{Count: 1, Period: time.Second}, Burst: 10}, per)
			r.take(10)
			ended := make(chan error, 1)
			go func() { ended <- r.wait(t.Context(), 5) }()
			synctest.Wait()
			r.Queue.timer.Snooze(time.Hour) // its turn is after six seconds
			time.Sleep(5*time.Second + time.Second/2)
			r.take(3)
			time.Sleep(5 * time.Second)
			r.wake()
			synctest.Wait()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
