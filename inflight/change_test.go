package inflight_test

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// A line records the results of queued requests, and their instants. Requests that
// are answered at the same instant run in any order.
type line struct {
	t     *testing.T
	l     *inflight.Limiter
	began time.Time
	mu    sync.Mutex
	said  []string
}

func newLine(t *testing.T, l *inflight.Limiter) *line {
	return &line{t: t, l: l, began: time.Now()}
}

// join queues a request behind all earlier ones, to work for a while.
func (q *line) join(who string, n int, work time.Duration) {
	go func() {
		p, err := q.l.Acquire(q.t.Context(), n)
		q.mu.Lock()
		q.said = append(q.said, fmt.Sprintf("%s %s %v", who, what(err), time.Since(q.began)))
		q.mu.Unlock()
		time.Sleep(work)
		p.Release(weir.Success)
	}()
	synctest.Wait()
}

func (q *line) expect(want ...string) {
	q.t.Helper()
	synctest.Wait()
	slices.Sort(q.said)
	slices.Sort(want)
	if !slices.Equal(q.said, want) {
		q.t.Errorf("%q: want %q", q.said, want)
	}
}

func TestSetLimitUpWakesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{MaxWait: -1})
		held := acquire(t, l, 1)
		q := newLine(t, l)
		q.join("a", 1, time.Second)
		q.join("b", 2, time.Second) // over_limit until now: it does not wait
		q.join("c", 1, time.Second)
		time.Sleep(time.Minute)
		l.SetAlgorithm(limit.Fixed(2))
		time.Sleep(time.Hour)
		held.Release(weir.Success)
		q.expect("b over_limit 0s", "a admit 1m0s", "c admit 1m1s")
	})
}

func TestSetLimitWakesAllWhoFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{MaxWait: -1})
		held := acquire(t, l, 1)
		q := newLine(t, l)
		for _, who := range []string{"a", "b", "c", "d"} {
			q.join(who, 1, time.Minute)
		}
		time.Sleep(time.Second)
		l.SetAlgorithm(limit.Fixed(4))
		synctest.Wait()
		if s := l.Stats(); s.Inflight != 4 || s.Waiting != 1 {
			t.Errorf("%+v: want 4 in flight and 1 waiting", s)
		}
		time.Sleep(time.Hour)
		held.Release(weir.Success)
		q.expect("a admit 1s", "b admit 1s", "c admit 1s", "d admit 1m1s")
	})
}

func TestSetLimitDownLetsWorkFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 3, inflight.Config{MaxWait: -1})
		q := newLine(t, l)
		q.join("a", 1, 10*time.Second)
		q.join("b", 2, 20*time.Second)
		q.join("c", 1, time.Second)
		q.join("large", 3, time.Second)
		time.Sleep(time.Second)
		l.SetAlgorithm(limit.Fixed(2)) // the large one will never fit, but it is not its turn
		if s := l.Stats(); s.Limit != 2 || s.Inflight != 3 || s.Waiting != 2 {
			t.Errorf("%+v: want 3 in flight still", s)
		}
		time.Sleep(time.Hour)
		q.expect("a admit 0s", "b admit 0s", "c admit 20s", "large over_limit 20s")
		l.SetAlgorithm(limit.Fixed(-1))
		if s := l.Stats(); s.Limit != 0 {
			t.Errorf("limit %d: want a negative one to be zero", s.Limit)
		}
	})
}

func TestSetQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{Queue: -1})
		held := acquire(t, l, 1)
		defer held.Release(weir.Success)
		q := newLine(t, l)
		q.join("a", 1, 0)
		l.SetQueue(2, time.Hour)
		q.join("b", 1, 0)
		q.join("c", 1, 0)
		l.SetQueue(1, time.Hour) // both keep their places
		q.join("d", 1, 0)
		time.Sleep(time.Second)
		l.SetQueue(1, 3*time.Second) // sooner than the alarm that is set
		time.Sleep(9 * time.Second)
		q.join("e", 1, 0)
		time.Sleep(time.Second)
		l.SetQueue(1, 20*time.Second) // later than that
		time.Sleep(time.Minute)
		q.join("f", 1, 0)
		time.Sleep(10 * time.Second)
		l.SetQueue(1, 5*time.Second) // less than it has waited
		q.expect("a over_limit 0s", "d queue_full 0s", "b overdue 3s", "c overdue 3s", "e overdue 30s", "f overdue 1m21s")
	})
}

// The room in the queue moves with the limit, and a request that finds none is
// rejected at once, whether the gate is asked or not.
func TestDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 2, inflight.Config{Depth: 1, MaxWait: -1})
		held := acquire(t, l, 2)
		q := newLine(t, l)
		for _, who := range []string{"a", "b", "c", "d"} {
			q.join(who, 1, time.Second)
		}
		time.Sleep(time.Second)
		l.SetAlgorithm(limit.Fixed(3))
		q.join("e", 1, time.Second)
		q.join("f", 1, time.Second)
		q.join("g", 1, time.Second)
		time.Sleep(time.Second)
		l.SetAlgorithm(limit.Fixed(1))
		q.join("h", 1, time.Second)
		held.Release(weir.Success)
		time.Sleep(time.Hour)
		q.expect("c queue_full 0s", "d queue_full 0s", "a admit 1s", "b admit 2s",
			"e admit 3s", "f admit 4s", "g queue_full 1s", "h queue_full 2s")
		if s := l.Stats(); s.Rejected[weir.QueueFull] != 4 || s.Admitted != 5 {
			t.Errorf("%+v: want four refused, and five admitted", s)
		}
	})
}

func TestSetQueueBringsAnUnboundedWaitToAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1, inflight.Config{MaxWait: 1<<63 - 1})
		held := acquire(t, l, 1)
		defer held.Release(weir.Success)
		q := newLine(t, l)
		q.join("a", 1, 0)
		l.SetQueue(1, 3*time.Second)
		time.Sleep(time.Minute)
		q.expect("a overdue 3s")
	})
}

func TestQueue(t *testing.T) {
	l := fixed(t, 1, inflight.Config{})
	for _, tt := range []struct {
		queue       int
		maxWait     time.Duration
		wantQueue   int
		wantMaxWait time.Duration
	}{
		{7, time.Minute, 7, time.Minute},
		{0, 0, inflight.DefaultQueue, inflight.DefaultMaxWait},
		{-1, -1, -1, -1},
	} {
		l.SetQueue(tt.queue, tt.maxWait)
		if queue, maxWait := l.Queue(); queue != tt.wantQueue || maxWait != tt.wantMaxWait {
			t.Errorf("set %d, %v: queue %d, %v", tt.queue, tt.maxWait, queue, maxWait)
		}
	}
}

func TestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 4, inflight.Config{MaxWait: -1})
		held := acquire(t, l, 4)
		q := newLine(t, l)
		q.join("a", 3, 10*time.Second)
		q.join("b", 1, 10*time.Second)
		time.Sleep(time.Second)
		held.Use(1) // frees units at once
		time.Sleep(time.Second)
		held.Use(9) // never waits, and exceeds the limit
		if s := l.Stats(); s.Inflight != 12 {
			t.Errorf("%d in flight: want 9 and 3", s.Inflight)
		}
		time.Sleep(18 * time.Second)
		held.Use(0) // works on, for nothing
		time.Sleep(time.Hour)
		q.expect("a admit 1s", "b admit 20s")
		held.Release(weir.Success)
		if s := l.Stats(); s.Inflight != 0 || s.Outcomes[weir.Success] != 3 {
			t.Errorf("%+v: want nothing in flight", s)
		}
	})
}

// Every change of the limit is told, with what led to it, outside the lock.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alg, err := limit.NewAIMD(limit.Config{Initial: 2, MaxHealthyLatency: 5 * time.Second}, 0)
		testrig.Must(t, err)
		var l *inflight.Limiter
		var events []inflight.Event
		l = newLimiter(t, inflight.Config{Algorithm: alg, MaxWait: -1, Trace: func(e inflight.Event) {
			l.Stats() // would wait for ever under the lock
			events = append(events, e)
		}})
		work := func(d time.Duration, o weir.Outcome) {
			p := acquire(t, l, 1)
			time.Sleep(d)
			p.Release(o)
		}
		work(seconds(1), weir.Success)
		work(seconds(1), weir.Success) // a limit's worth
		work(seconds(1), weir.Ignored)
		work(seconds(1), weir.Dropped)
		work(seconds(6), weir.Success)
		q := newLine(t, l)
		q.join("a", 1, time.Hour)
		q.join("b", 1, time.Hour)
		q.join("c", 1, time.Hour)
		l.SetAlgorithm(limit.Fixed(2))
		sample := func(start, end int, o weir.Outcome) limit.Sample {
			return limit.Sample{Start: seconds(start), End: seconds(end), Inflight: 1, N: 1, Outcome: o}
		}
		want := []inflight.Event{
			{Was: 2, Cause: limit.Grown, State: inflight.State{Limit: 3}, Sample: sample(1, 2, weir.Success)},
			{Was: 3, Cause: limit.Dropped, State: inflight.State{Limit: 2}, Sample: sample(3, 4, weir.Dropped)},
			{Was: 2, Cause: limit.Slow, State: inflight.State{Limit: 1}, Sample: sample(4, 10, weir.Success)},
			{Was: 1, Cause: limit.Set, State: inflight.State{Limit: 2, Inflight: 2, Waiting: 1}, Sample: limit.Sample{End: seconds(10)}},
		}
		if !reflect.DeepEqual(events, want) {
			t.Errorf("%+v: want %+v", events, want)
		}
		time.Sleep(3 * time.Hour) // until all have gone
	})
}

// An event has the state after the admissions that the change caused.
func TestTraceOfARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alg, err := limit.NewAIMD(limit.Config{Initial: 1}, 0)
		testrig.Must(t, err)
		events := make(chan inflight.Event, 9)
		l := newLimiter(t, inflight.Config{Algorithm: alg, Trace: func(e inflight.Event) { events <- e }})
		held := acquire(t, l, 1)
		q := newLine(t, l)
		q.join("a", 1, 100*time.Millisecond)
		q.join("b", 1, 100*time.Millisecond)
		q.join("c", 1, 0)
		held.Release(weir.Success)
		if e := <-events; e.Limit != 2 || e.State.Inflight != 2 || e.Waiting != 1 {
			t.Errorf("%+v: want 2 in flight and 1 waiting", e)
		}
		time.Sleep(time.Second)
		q.expect("a admit 0s", "b admit 0s", "c admit 100ms")
	})
}
