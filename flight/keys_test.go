package flight_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
)

// Two keys have nothing to do with each other; a run may ask for another key.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		inner := func(ctx context.Context) (*int, error) {
			v, coalesced, err := g.Do(ctx, "inner", value(s))
			if !coalesced {
				t.Error("want the inner run to be shared")
			}
			return v, err
		}
		a := flight.Begin(&g, t.Context(), "inner", value(s))
		b := flight.Begin(&g, t.Context(), "outer", inner)
		if ra, rb := <-a, <-b; ra.Val == nil || rb.Val != ra.Val || ra.Coalesced || rb.Coalesced {
			t.Errorf("%+v, %+v: want one value", ra, rb)
		}
		if st := g.Stats(); st != (stats{Runs: 2, Coalesced: 1}) {
			t.Errorf("%+v: want a run for each key", st)
		}
	})
}

type place struct {
	zone string
	at   [2]float64
}

func TestKindsOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coalesce(t, "struct", place{"a", [2]float64{1, 2}}, place{"a", [2]float64{1, 3}})
		coalesce(t, "array", [3]string{"a"}, [3]string{"b"})
		coalesce(t, "pointer", new(int), new(int))
		coalesce[any](t, "interface", 1, "1")
		coalesce[any](t, "types in an interface", 1, int64(1))
		coalesce[error](t, "interface with methods", errNone, errWith)
		coalesce(t, "zeros", math.Copysign(0, -1), 1)
	})
}

// coalesce sees that calls with key share a run, and with other do not.
func coalesce[K comparable](t *testing.T, what string, key, other K) {
	var g flight.Group[K, *int]
	a, b, c := flight.Begin(&g, t.Context(), key, value(s)), flight.Begin(&g, t.Context(), key, value(s)), flight.Begin(&g, t.Context(), other, value(s))
	if ra, rb, rc := <-a, <-b, <-c; ra.Val == nil || ra.Val != rb.Val || rc.Val == nil || rc.Val == ra.Val {
		t.Errorf("%s: %v, %v, %v: want the first two to be one", what, ra, rb, rc)
	}
}

// What does not equal itself has no company, and leaves nothing behind.
func TestNaN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[any, *int]
		nan := any(place{"a", [2]float64{math.NaN()}})
		a, b := flight.Begin(&g, t.Context(), nan, value(s)), flight.Begin(&g, context.Background(), nan, value(s))
		g.Forget(nan)
		if ra, rb := <-a, <-b; ra.Val == nil || rb.Val == nil || ra.Val == rb.Val || ra.Coalesced || rb.Coalesced {
			t.Errorf("%+v, %+v: want a run each", ra, rb)
		}
		leaving, cancel := context.WithTimeout(t.Context(), s)
		defer cancel()
		if _, _, err := g.Do(leaving, nan, value(time.Hour)); err != context.DeadlineExceeded {
			t.Error(err)
		}
		synctest.Wait()
		if st := g.Stats(); st != (stats{Runs: 3, Abandoned: 1}) || flight.Listed(&g) != 0 {
			t.Errorf("%+v, %d listed: want nothing left", st, flight.Listed(&g))
		}
		coalesceAfter(t, &g)
	})
}

// A key without a hash panics, and does no harm.
func TestUncomparable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[any, *int]
		for what, call := range map[string]func(key any){
			"Do":     func(key any) { _, _, _ = g.Do(t.Context(), key, value(s)) },
			"Forget": g.Forget,
		} {
			for range 2 { // with and without runs
				func() {
					defer func() {
						if err, ok := recover().(error); !ok || !strings.HasSuffix(err.Error(), "able type []string") && !strings.HasSuffix(err.Error(), "able type: []string") {
							t.Errorf("%s: %v: want a panic", what, err)
						}
					}()
					call([]string{"key"})
				}()
				coalesceAfter(t, &g)
			}
		}
	})
}

// coalesceAfter sees that g works.
func coalesceAfter(t *testing.T, g *flight.Group[any, *int]) {
	t.Helper()
	a, b := flight.Begin(g, t.Context(), "key", value(s)), flight.Begin(g, t.Context(), "key", value(s))
	if ra, rb := <-a, <-b; ra.Val == nil || ra.Val != rb.Val {
		t.Errorf("%+v, %+v: want one value", ra, rb)
	}
}
