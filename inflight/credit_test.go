package inflight_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// However much comes and goes without the gate, nothing is lost in the counts:
// there are more than fit into the word in which they are kept.
func TestCreditCounts(t *testing.T) {
	const n = 700_000
	l := fixed(t, 3, inflight.Config{})
	for range n {
		p := acquire(t, l, 1)
		p.Release(weir.Success)
	}
	held := acquire(t, l, 3)
	for range 1000 {
		if _, ok := l.TryAcquire(context.Background(), 1); ok {
			t.Fatal("admitted beyond the limit")
		}
	}
	want := inflight.Stats{
		State: inflight.State{Limit: 3, Inflight: 3}, Admitted: n + 1,
		Rejected: map[weir.Reason]uint64{weir.OverLimit: 1000, weir.QueueFull: 0, weir.Overdue: 0, weir.TooLate: 0, weir.Closed: 0},
		Waits:    [14]uint64{n + 1},
		Outcomes: map[weir.Outcome]uint64{weir.Success: n, weir.Dropped: 0, weir.Ignored: 0},
		Changes:  map[limit.Cause]uint64{},
	}
	if s := l.Stats(); !reflect.DeepEqual(s, want) {
		t.Errorf("%+v: want %+v", s, want)
	}
	held.Release(weir.Ignored)
}

// Callers on several goroutines, of any size and with any outcome, while the
// limit changes: never more is in flight than the highest limit, and in the
// end everything is back, and accounted for.
func TestCreditStorm(t *testing.T) {
	const most, callers, calls = 40, 8, 20_000
	l := fixed(t, most, inflight.Config{Queue: 4})
	var busy, asked, admitted atomic.Int64
	outcomes := []weir.Outcome{weir.Success, weir.Success, weir.Success, weir.Success, weir.Dropped, weir.Ignored}
	var wg sync.WaitGroup
	for id := range uint64(callers) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(id, 1))
			for range calls {
				n := int(rng.Uint32() % 4)
				var p weir.Permit
				ok := false
				asked.Add(1)
				if rng.Uint32()%2 == 0 {
					p, ok = l.TryAcquire(context.Background(), n)
				} else {
					var err error
					p, err = l.Acquire(context.Background(), n)
					ok = err == nil
				}
				if !ok {
					continue
				}
				admitted.Add(1)
				if is := busy.Add(int64(n)); is > most {
					t.Errorf("%d in flight: want %d at most", is, most)
				}
				if m := int(rng.Uint32() % 4); m < n && rng.Uint32()%8 == 0 {
					busy.Add(int64(m - n))
					p.Use(m)
					n = m
				}
				busy.Add(int64(-n))
				p.Release(outcomes[rng.Uint32()%uint32(len(outcomes))])
			}
		})
	}
	for i := range 2000 {
		l.SetAlgorithm(limit.Fixed(most - i%10))
		l.Stats()
	}
	l.SetAlgorithm(limit.Fixed(most))
	wg.Wait()
	s := l.Stats()
	if s.Inflight != 0 || s.Waiting != 0 || s.Admitted != uint64(admitted.Load()) ||
		s.Outcomes[weir.Success]+s.Outcomes[weir.Dropped]+s.Outcomes[weir.Ignored] != s.Admitted || requests(s) != uint64(asked.Load()) {
		t.Errorf("%+v: of %d requests %d were admitted, and all have left", s, asked.Load(), admitted.Load())
	}
	if p, ok := l.TryAcquire(context.Background(), most); !ok {
		t.Error("the whole limit is not free again")
	} else {
		p.Release(weir.Ignored)
	}
}

// A counter is an algorithm that counts what it is told.
type counter struct {
	limit.Controller
	sparse bool
	told   *int
}

func (c counter) Limit() int { return 10 }

func (c counter) Observe(limit.Sample) limit.Cause { *c.told++; return limit.Kept }

func (c counter) Sparse() bool { return c.sparse }

// An algorithm that can do with less is told of one in 64, if there are many,
// and of all, if there are few. One that cannot is told of all.
func TestSparseSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := func(sparse bool, n int, each time.Duration) int {
			told := 0
			l := newLimiter(t, inflight.Config{Algorithm: counter{controller(t), sparse, &told}})
			for range n {
				p := acquire(t, l, 1)
				time.Sleep(each)
				p.Release(weir.Success)
			}
			return told
		}
		if n := count(true, 64_000, time.Microsecond); n < 1000 || n > 1100 {
			t.Errorf("a million a second: told of %d of 64,000: want one in 64", n)
		}
		if n := count(true, 1000, 10*time.Millisecond); n != 1000 {
			t.Errorf("a hundred a second: told of %d of 1000: want all", n)
		}
		if n := count(false, 64_000, time.Microsecond); n != 64_000 {
			t.Errorf("an algorithm that needs them all was told of %d of 64,000", n)
		}
		// Many, and then few.
		told := 0
		l := newLimiter(t, inflight.Config{Algorithm: counter{controller(t), true, &told}})
		for i := range 66_000 {
			p := acquire(t, l, 1)
			if i >= 64_000 {
				time.Sleep(10 * time.Millisecond)
			}
			p.Release(weir.Success)
		}
		if told < 2000 {
			t.Errorf("told of %d: want most of the last 2000", told)
		}
	})
}

// Work that was not timed is held, too, if it is abandoned: since about when
// it began.
func TestAbandonedUntimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		l := newLimiter(t, inflight.Config{Algorithm: counter{controller(t), true, &told}})
		var slow []weir.Permit
		for range 5 {
			slow = append(slow, acquire(t, l, 1))
		}
		for range 10_000 { // many at once: hardly any of them are timed
			p := acquire(t, l, 1)
			p.Release(weir.Success)
		}
		time.Sleep(time.Second)
		for i := range slow {
			slow[i].Release(weir.Success) // that is how long work takes
		}
		p := acquire(t, l, 4)
		p.Release(outcome.TimedOut)
		if s := l.Stats(); s.Abandoned != 1 || s.Outcomes[weir.Dropped] != 1 {
			t.Errorf("%+v: want one abandoned", s)
		}
		time.Sleep(time.Minute)
		if s := l.Stats(); s.Inflight != 0 || s.Held != 0 {
			t.Errorf("%+v: want nothing in flight a minute later", s)
		}
	})
}
