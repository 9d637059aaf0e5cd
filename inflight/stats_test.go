package inflight_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// Every admitted request is in the histogram of waits: also one that did not wait, and none that
// left the queue or was rejected.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(1), MaxWait: time.Minute, Discipline: inflight.FIFO})
		for range 3 { // each holds the unit for 100 ms
			go func() {
				p := acquire(t, l, 1)
				time.Sleep(100 * time.Millisecond)
				p.Release(weir.Success)
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := l.Acquire(ctx, 1); err == nil {
			t.Error("admitted")
		}
		time.Sleep(250 * time.Millisecond)
		slow := acquire(t, l, 1) // waits for 40 ms
		go func() {
			if _, err := l.Acquire(t.Context(), 1); err == nil {
				t.Error("admitted after a minute")
			}
		}()
		time.Sleep(time.Minute)
		go func() {
			p := acquire(t, l, 1)
			p.Release(weir.Success)
		}()
		synctest.Wait()
		time.Sleep(31 * time.Second)
		slow.Release(weir.Success)
		synctest.Wait()

		// 0, 100 and 200 ms, 40 ms, 31 s
		want := [14]uint64{0: 1, 4: 1, 5: 1, 6: 1, 13: 1}
		if st := l.Stats(); st.Waits != want || st.Waited != 31*time.Second+340*time.Millisecond || st.Admitted != 5 {
			t.Errorf("%v, %v together, %d admitted: want %v", st.Waits, st.Waited, st.Admitted, want)
		}
	})
}

// Changes of the limit are counted by cause, however they come about.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, inflight.Config{Algorithm: &expiring{Controller: controller(t), at: time.Second, limit: 1}, MaxWait: -1})
		expect := func(when string, want map[limit.Cause]uint64) {
			t.Helper()
			if got := l.Stats().Changes; !maps.Equal(got, want) {
				t.Errorf("%s: %v: want %v", when, got, want)
			}
		}
		expect("at first", map[limit.Cause]uint64{})
		first, second := acquire(t, l, 1), acquire(t, l, 1) // the second waits for the change
		first.Release(weir.Success)
		second.Release(weir.Success)
		expect("with time", map[limit.Cause]uint64{limit.Throughput: 1})

		aimd, err := limit.NewAIMD(limit.Config{Initial: 10}, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		l.SetAlgorithm(aimd)
		p := acquire(t, l, 1)
		time.Sleep(time.Second)
		p.Release(weir.Dropped)
		expect("by a sample", map[limit.Cause]uint64{limit.Throughput: 1, limit.Set: 1, limit.Dropped: 1})

		l.SetAlgorithm(limit.Fixed(l.State().Limit))
		expect("to the same", map[limit.Cause]uint64{limit.Throughput: 1, limit.Set: 1, limit.Dropped: 1})
		l.SetAlgorithm(odd{})
		p = acquire(t, l, 1)
		p.Release(weir.Success)
		changes := l.Stats().Changes
		if names := len(changes); names != 4 || changes[limit.Drain+1] != 1 || (limit.Drain+1).String() != "unknown" {
			t.Errorf("of an unknown cause: %v", changes)
		}
	})
}

// odd gives causes that package limit does not know.
type odd struct{}

func (odd) Limit() int                       { return 2 }
func (odd) Observe(limit.Sample) limit.Cause { return 200 }

// Work that no caller waited for is wasted, whatever the limit learns from it.
func TestWasted(t *testing.T) {
	l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(10)})
	for _, o := range []weir.Outcome{weir.Success, weir.Dropped, weir.Ignored, outcome.Late, outcome.TimedOut, outcome.Gone, outcome.Left} {
		p := acquire(t, l, 1)
		p.Release(o)
	}
	if st := l.Stats(); st.Wasted != 4 || st.Abandoned != 2 {
		t.Errorf("%+v: want four wasted", st)
	}
}

// Patience tells when callers leave, once enough of them have left. Callers that wait for
// longer do not hide those of a partition that leave earlier.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(10), Partitions: map[string]float64{"batch": 0.5, "web": 0.5}})
		leave := func(partition string, after time.Duration) {
			for range 5 {
				ctx := weir.WithClass(t.Context(), weir.Class{Partition: partition})
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(after, cancel)
				_ = weir.Do(ctx, l, func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				})
			}
		}
		expect := func(want time.Duration) {
			t.Helper()
			if got := l.Stats().Patience; got.Round(time.Millisecond) != want {
				t.Errorf("%v: want %v", got, want)
			}
		}
		expect(0)
		leave("batch", 3*time.Second)
		expect(3 * time.Second)
		leave("web", time.Second)
		expect(time.Second)
		leave("", 2*time.Second)
		expect(time.Second)
	})
}
