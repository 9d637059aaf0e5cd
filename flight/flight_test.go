package flight_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
)

// A group has values that differ by their address, so that a value that is nil by
// mistake (redis/rueidis#1014) is seen.
type group = flight.Group[string, *int]

// value is a function that takes d and then has a new value.
func value(d time.Duration) func(context.Context) (*int, error) {
	return func(ctx context.Context) (*int, error) {
		select {
		case <-time.After(d):
			return new(int), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestOneRunForTenThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		var wg sync.WaitGroup
		const callers = 10_000
		got := make([]flight.Result[*int], callers)
		for i := range got {
			wg.Go(func() {
				switch ctx := t.Context(); i % 3 {
				case 0:
					ctx = context.Background()
					fallthrough
				case 1:
					got[i].Val, got[i].Coalesced, got[i].Err = g.Do(ctx, "key", value(s))
				case 2:
					got[i] = <-flight.Begin(&g, ctx, "key", value(s))
				}
			})
		}
		wg.Wait()
		begun := 0
		for i, r := range got {
			if r.Val == nil || r.Val != got[0].Val || r.Err != nil {
				t.Fatalf("caller %d: %+v: want the value of the first, %+v", i, r, got[0])
			}
			if !r.Coalesced {
				begun++
			}
		}
		if st := g.Stats(); begun != 1 || st != (stats{Runs: 1, Coalesced: callers - 1}) {
			t.Errorf("%d callers began it, %+v: want one", begun, st)
		}
	})
}

// A caller with a context that has ended neither begins nor joins a run.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		cancelled, cancel := context.WithCancelCause(t.Context())
		cancel(errNone)
		late, cancelLate := context.WithDeadline(t.Context(), time.Now())
		defer cancelLate()
		ask := func() {
			t.Helper()
			for _, ctx := range []context.Context{cancelled, late} {
				if v, coalesced, err := g.Do(ctx, "key", value(s)); v != nil || coalesced || err != ctx.Err() {
					t.Errorf("%v, %v, %v: want the context's own error", v, coalesced, err)
				}
				if r := <-flight.Begin(&g, ctx, "key", value(s)); r != (flight.Result[*int]{Err: ctx.Err()}) {
					t.Errorf("%v: want the context's own error", r)
				}
			}
		}
		ask()
		ch := flight.Begin(&g, t.Context(), "key", value(s))
		ask()
		<-ch
		if st := g.Stats(); st != (stats{Runs: 1}) {
			t.Errorf("%+v: want one run, and nobody in it", st)
		}
	})
}

// A caller that leaves at the instant at which the run ends gets either the
// result or its context's error, never a mixture.
func TestLeavesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), s)
			v, _, err := g.Do(ctx, "key", value(s))
			if (v == nil) == (err == nil) {
				t.Errorf("%v, %v", v, err)
			}
			cancel()
			synctest.Wait()
		}
		if st := g.Stats(); st.Runs != 200 || st.Inflight != 0 {
			t.Errorf("%+v", st)
		}
	})
}

type ctxKey struct{}

// A run has the values of the first caller's context, and no deadline.
func TestContext(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			g := group{Timeout: timeout}
			first := context.WithValue(t.Context(), ctxKey{}, "first")
			leaving, cancel := context.WithTimeout(first, s)
			defer cancel()
			var after context.Context
			look := func(ctx context.Context) (*int, error) {
				if who := ctx.Value(ctxKey{}); who != "first" {
					t.Errorf("%v's values: want those of the first", who)
				}
				end, ok := ctx.Deadline()
				if ok != (timeout != 0) || ok && end != time.Now().Add(timeout) {
					t.Errorf("a deadline at %v, %v: want %v", end, ok, timeout)
				}
				after = ctx
				return value(2 * s)(ctx)
			}
			begun := flight.Begin(&g, leaving, "key", look)
			v, coalesced, err := g.Do(context.WithValue(t.Context(), ctxKey{}, "second"), "key", nil)
			if r := <-begun; r.Err != context.DeadlineExceeded || v == nil || !coalesced || err != nil {
				t.Errorf("%+v; %v, %v, %v: want the first to leave, and the second a value", r, v, coalesced, err)
			}
			if synctest.Wait(); after.Err() != context.Canceled {
				t.Errorf("%v: want the context of what has ended to have ended", after.Err())
			}
			_, _, err = g.Do(context.WithoutCancel(first), "key", look)
			if st := g.Stats(); err != nil || st.Runs != 2 {
				t.Errorf("%v, %+v", err, st)
			}
		})
	}
}

// A call that comes during a run joins it, and gets its value even if the first caller leaves.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		ctx, cancel := context.WithCancel(t.Context())
		first := flight.Begin(&g, ctx, "key", value(3*s))
		if st := g.Stats(); st != (stats{Runs: 1, Inflight: 1}) {
			t.Errorf("%+v: want it begun", st)
		}
		second := flight.Begin(&g, t.Context(), "key", nil)
		if st := g.Stats(); st != (stats{Runs: 1, Inflight: 1, Coalesced: 1}) {
			t.Errorf("%+v: want it joined", st)
		}
		cancel() // and the second call does not begin another run
		time.Sleep(3 * s)
		synctest.Wait()
		if r := <-first; r != (flight.Result[*int]{Err: context.Canceled}) {
			t.Errorf("%+v: want the context's own error", r)
		}
		if r := <-second; r.Val == nil || r.Err != nil || !r.Coalesced {
			t.Errorf("%+v: want the value", r)
		}
	})
}

// Runs that no other call joined are used again, in any order, after their end.
func TestUsedAgain(t *testing.T) {
	var g flight.Group[int, int]
	ctx := context.Background()
	var nest func(depth int) (int, error)
	nest = func(depth int) (int, error) {
		if depth == 100 {
			return 0, errNone
		}
		v, coalesced, err := g.Do(ctx, depth, func(context.Context) (int, error) { return nest(depth + 1) })
		if coalesced || depth < 99 && v != 99-depth || (v == 0) != errors.Is(err, errNone) {
			t.Fatalf("%d: %v, %v, %v", depth, v, coalesced, err)
		}
		return v + 1, nil
	}
	for range 3 {
		if v, err := nest(0); v != 100 || err != nil {
			t.Errorf("%v, %v", v, err)
		}
	}
	if st := g.Stats(); st != (stats{Runs: 300}) || flight.Spares(&g) != flight.MaxSpares {
		t.Errorf("%+v, %d spares: want %d", st, flight.Spares(&g), flight.MaxSpares)
	}
}
