package inflight_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

func TestCloseRejectsNewAndWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 2, inflight.Config{MaxWait: -1})
		one, two := acquire(t, l, 1), acquire(t, l, 1)
		q := newLine(t, l)
		q.join("a", 1, 0)
		q.join("b", 2, 0)
		l.Close()
		q.expect("a closed 0s", "b closed 0s")
		one.Release(weir.Success)
		if _, err := l.Acquire(t.Context(), 1); reason(err) != weir.Closed {
			t.Errorf("%v: want closed", err)
		}
		if _, err := l.Acquire(t.Context(), 0); reason(err) != weir.Closed {
			t.Errorf("%v: want closed", err)
		}
		if _, ok := l.TryAcquire(t.Context(), 1); ok {
			t.Error("TryAcquire after Close")
		}
		l.Close()
		if s := l.Stats(); s.Rejected[weir.Closed] != 5 || s.Inflight != 1 || s.Waiting != 0 || requests(s) != 7 {
			t.Errorf("%+v: want 5 closed, and one in flight", s)
		}
		two.Release(weir.Success)
		if s := l.Stats(); s.Inflight != 0 || s.Outcomes[weir.Success] != 2 {
			t.Errorf("%+v: want that work finishes after Close", s)
		}
	})
}

func TestDrainWaitsForWorkInFlight(t *testing.T) {
	for name, alg := range map[string]func(*testing.T) limit.Algorithm{
		"fixed": func(*testing.T) limit.Algorithm { return limit.Fixed(3) },
		"AIMD": func(t *testing.T) limit.Algorithm {
			alg, err := limit.NewAIMD(limit.Config{Initial: 3}, 0)
			testrig.Must(t, err)
			return alg
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, inflight.Config{Algorithm: alg(t)})
				if err := l.Drain(t.Context()); err != nil {
					t.Errorf("nothing in flight: %v", err)
				}
				permits := []weir.Permit{acquire(t, l, 1), acquire(t, l, 2)}
				hasty, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var ends []string
				drain := func(name string, ctx context.Context) {
					err := l.Drain(ctx)
					ends = append(ends, fmt.Sprint(name, " ", err))
				}
				go drain("hasty", hasty)
				time.Sleep(2 * time.Second)
				go drain("patient", t.Context())
				synctest.Wait()
				permits[0].Release(weir.Success)
				synctest.Wait()
				permits[1].Release(weir.Success)
				synctest.Wait()
				if want := []string{"hasty context deadline exceeded", "patient <nil>"}; !slices.Equal(ends, want) {
					t.Errorf("%q: want %q", ends, want)
				}
				p := acquire(t, l, 1) // it is not closed
				p.Release(weir.Success)
			})
		})
	}
}

// A Drain that gave up leaves the fast path as it was.
func TestDrainGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 3, inflight.Config{})
		p := acquire(t, l, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Drain(ctx); err != context.DeadlineExceeded {
			t.Errorf("%v: want that of the context", err)
		}
		p.Release(weir.Success)
		if n := testing.AllocsPerRun(10, func() {
			p := acquire(t, l, 1)
			p.Release(weir.Success)
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

type ctxKey struct{}

// Observe is told of every decision, with the context of its request, and of the
// release of what was admitted.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards events
		var events []string
		tell := func(format string, args ...any) {
			l := fmt.Sprintf(format, args...)
			mu.Lock()
			defer mu.Unlock()
			events = append(events, l)
		}
		var l *inflight.Limiter
		l = fixed(t, 1, inflight.Config{Queue: 1, MaxWait: 2 * time.Second,
			Observe: func(ctx context.Context, n int, waited time.Duration, err error) func(weir.Outcome) {
				l.Stats() // would deadlock under the lock
				name := ctx.Value(ctxKey{})
				tell("%v: %d after %v: %s", name, n, waited, what(err))
				if name == "quiet" {
					return nil
				}
				return func(o weir.Outcome) {
					l.Stats()
					tell("%v: %v", name, o)
				}
			}})
		as := func(name string) context.Context { return context.WithValue(t.Context(), ctxKey{}, name) }
		first, err := l.Acquire(as("first"), 1)
		testrig.Must(t, err)
		go func() {
			p, err := l.Acquire(as("second"), 1)
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			p.Release(weir.Dropped)
		}()
		synctest.Wait()
		_, _ = l.Acquire(as("full"), 1)
		l.TryAcquire(as("try"), 1)
		_, _ = l.Acquire(as("large"), 2)
		time.Sleep(time.Second)
		first.Release(weir.Success)
		first.Release(weir.Ignored) // does nothing
		time.Sleep(2 * time.Second)
		ended, cancel := context.WithCancel(as("gone"))
		cancel()
		_, _ = l.Acquire(ended, 1)
		p, ok := l.TryAcquire(as("quiet"), 1)
		if !ok {
			t.Fatal("no room")
		}
		go func() { _, _ = l.Acquire(as("overdue"), 1) }()
		time.Sleep(time.Minute)
		p.Release(weir.Success)
		large, _ := l.Acquire(as("uses"), 1)
		large.Use(0)
		if s := l.Stats(); s.Inflight != 0 {
			t.Errorf("%+v: want that Use gives units back", s)
		}
		large.Release(weir.Ignored)
		want := []string{
			"first: 1 after 0s: admit", "full: 1 after 0s: queue_full", "try: 1 after 0s: over_limit", "large: 2 after 0s: over_limit",
			"first: success", "second: 1 after 1s: admit", "second: dropped", "gone: 1 after 0s: cancel",
			"quiet: 1 after 0s: admit", "overdue: 1 after 2s: overdue", "uses: 1 after 0s: admit", "uses: ignored",
		}
		mu.Lock()
		defer mu.Unlock()
		// The end of one call and the admission of the next come from two goroutines.
		byName := func(a, b string) int {
			nameA, _, _ := strings.Cut(a, ":")
			nameB, _, _ := strings.Cut(b, ":")
			return strings.Compare(nameA, nameB)
		}
		slices.SortStableFunc(events, byName)
		slices.SortStableFunc(want, byName)
		if !slices.Equal(events, want) {
			t.Errorf("got\n%q\nwant\n%q", events, want)
		}
	})
}

// The class of the context counts for TryAcquire too.
func TestTryAcquireTakesTheClass(t *testing.T) {
	l := fixed(t, 2, inflight.Config{Queue: -1, Partitions: map[string]float64{"web": 0.5}})
	web := weir.WithClass(t.Context(), weir.Class{Partition: "web"})
	p, ok := l.TryAcquire(web, 1)
	if !ok {
		t.Fatal("no room")
	}
	if s := l.Stats(); s.Inflight != 1 {
		t.Errorf("%+v", s)
	}
	p.Release(weir.Success)
	if s := l.Stats(); s.Inflight != 0 || s.Outcomes[weir.Success] != 1 {
		t.Errorf("%+v", s)
	}
}

// A panic of Observe, which an HTTP server recovers from, keeps no units.
func TestObservePanics(t *testing.T) {
	l, err := inflight.New(inflight.Config{
		Observe: func(context.Context, int, time.Duration, error) func(weir.Outcome) { panic("observed") },
	})
	testrig.Must(t, err)
	for _, acquire := range []func(){
		func() { _, _ = l.Acquire(t.Context(), 1) },
		func() { _, _ = l.TryAcquire(t.Context(), 1) },
	} {
		func() {
			defer func() { _ = recover() }()
			acquire()
		}()
		if n := l.State().Inflight; n != 0 {
			t.Errorf("%d in flight: want 0", n)
		}
	}
}
