package flight_test

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
)

// explode panics, under a name to look for in the stack.
func explode(value any) func(context.Context) (*int, error) {
	return func(context.Context) (*int, error) {
		time.Sleep(s)
		panic(value)
	}
}

// contexts are of callers that cannot leave, and of callers that can. In the first
// case the function runs on the caller's goroutine.
var contexts = map[string]func(*testing.T) context.Context{
	"stays":     func(*testing.T) context.Context { return context.Background() },
	"may leave": func(t *testing.T) context.Context { return t.Context() },
}

// A panic is an error of all callers that wait, and the process lives.
func TestPanic(t *testing.T) {
	for name, ctx := range contexts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g group
				ch := make(chan *flight.PanicError, 3)
				ask := func() {
					v, _, err := g.Do(ctx(t), "key", explode(fs.ErrNotExist))
					e, ok := err.(*flight.PanicError)
					if v != nil || !ok {
						t.Errorf("%v, %v: want a *PanicError", v, err)
					}
					ch <- e
				}
				go ask()
				go ask()
				r := <-flight.Begin(&g, ctx(t), "key", explode(fs.ErrNotExist))
				e, ok := errors.AsType[*flight.PanicError](r.Err)
				if !ok || <-ch != e || <-ch != e {
					t.Fatalf("%v: want the same for all", r.Err)
				}
				if e.Error() != "flight: panic: file does not exist" || !errors.Is(e, fs.ErrNotExist) || e.Value != fs.ErrNotExist {
					t.Errorf("%v, %v: want it to be its value", e, e.Value)
				}
				if !strings.Contains(string(e.Stack), "explode") {
					t.Errorf("%s: want the function in it", e.Stack)
				}
				if st := g.Stats(); st != (stats{Runs: 1, Coalesced: 2, Panics: 1}) {
					t.Errorf("%+v: want one panic", st)
				}
			})
		})
	}
}

func TestPanicValues(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
		inner bool // it has an error inside
	}{
		{"oh", "flight: panic: oh", false},
		{42, "flight: panic: 42", false},
		{nil, "flight: panic: panic called with nil argument", true},
		{errNone, "flight: panic: no such user", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var g group
			_, _, err := g.Do(context.Background(), "key", explode(tt.value))
			if !strings.HasPrefix(err.Error(), tt.want) || (errors.Unwrap(err) != nil) != tt.inner {
				t.Errorf("%v, %v: want %s", err, errors.Unwrap(err), tt.want)
			}
			// An error that says that another group's function panicked is no panic.
			_, _, again := g.Do(context.Background(), "key", func(context.Context) (*int, error) { return nil, err })
			if st := g.Stats(); again != err || st != (stats{Runs: 2, Panics: 1}) {
				t.Errorf("%v, %+v: want one panic", again, st)
			}
		})
	}
}

// Without a function there is nothing to do but to panic.
func TestNoFunction(t *testing.T) {
	var g group
	if _, _, err := g.Do(context.Background(), "key", nil); !strings.Contains(err.Error(), "nil pointer") {
		t.Error(err)
	}
}

func exit(context.Context) (*int, error) {
	time.Sleep(s)
	runtime.Goexit()
	return new(int), nil
}

// Goexit ends the goroutine of the function. If that is a caller's, so be it. All
// the others learn of it.
func TestGoexit(t *testing.T) {
	for name, ctx := range contexts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g group
				ended, returned := false, errors.New("Do did not return")
				go func() {
					defer func() { ended = true }()
					_, _, returned = g.Do(ctx(t), "key", exit)
				}()
				synctest.Wait()
				ch := flight.Begin(&g, t.Context(), "key", exit)
				v, coalesced, err := g.Do(context.Background(), "key", exit)
				if r := <-ch; v != nil || !coalesced || err != flight.ErrGoexit || r != (flight.Result[*int]{Err: err, Coalesced: true}) {
					t.Errorf("%v, %v, %v; %+v: want ErrGoexit", v, coalesced, err, r)
				}
				if synctest.Wait(); !ended || (returned == flight.ErrGoexit) != (name == "may leave") {
					t.Errorf("%v: the goroutine has ended: %v", returned, ended)
				}
				if st := g.Stats(); st != (stats{Runs: 1, Coalesced: 2}) {
					t.Errorf("%+v: want one run", st)
				}
				coalesceAgain(t, &g)
			})
		})
	}
}

// After an abandoned run that ends by Goexit, a new one begins, even on a
// caller's goroutine.
func TestGoexitOfAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		leaving, cancel := context.WithCancel(t.Context())
		first := flight.Begin(&g, leaving, "key", exit)
		synctest.Wait()
		cancel()
		<-first
		second := flight.Begin(&g, context.Background(), "key", exit)
		if r := <-second; r.Err != flight.ErrGoexit || r.Coalesced {
			t.Errorf("%+v: want ErrGoexit, of its own run", r)
		}
		if st := g.Stats(); st != (stats{Runs: 2, Abandoned: 1}) {
			t.Errorf("%+v: want two runs", st)
		}
	})
}

func coalesceAgain(t *testing.T, g *group) {
	t.Helper()
	if v, coalesced, err := g.Do(context.Background(), "key", value(s)); v == nil || coalesced || err != nil {
		t.Errorf("%v, %v, %v: want a new run", v, coalesced, err)
	}
}
