package flight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
)

// A caller that leaves gets its context's error, and not the cause.
func TestLeavesWithItsOwnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(s, func() { cancel(errNone) })
		if v, coalesced, err := g.Do(ctx, "key", value(2*s)); v != nil || coalesced || err != context.Canceled {
			t.Errorf("%v, %v, %v: want Canceled", v, coalesced, err)
		}
	})
}

// A late is a context that ends at the n-th call of Done.
type late struct {
	context.Context
	asked, ends int
	atEnd       func()
	done        chan struct{}
	err         error
}

func (l *late) Err() error { return l.err }

func (l *late) Done() <-chan struct{} {
	if l.asked++; l.asked == l.ends {
		l.atEnd()
		l.err = context.Canceled
		close(l.done)
	}
	return l.done
}

// If a caller's context and its run have both ended, the caller has the result.
// It does not leave a run that has ended, either.
func TestEndsBeforeItsCallerLeaves(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var g group
			first := flight.Begin(&g, t.Context(), "key", value(s))
			ctx := &late{Context: t.Context(), ends: 2, done: make(chan struct{}), atEnd: func() {
				time.Sleep(s)
				synctest.Wait()
			}}
			v, coalesced, err := g.Do(ctx, "key", nil)
			if v == nil || v != (<-first).Val || !coalesced || err != nil || ctx.err == nil {
				t.Errorf("%v, %v, %v: want the value", v, coalesced, err)
			}
			if st := g.Stats(); st != (stats{Runs: 1, Coalesced: 1}) {
				t.Errorf("%+v: want nobody to leave", st)
			}
		})
	}
}

// If a caller's context has ended by the time that an abandoned run fails, it does
// not begin another one.
func TestEndsBeforeItsTurn(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var g group
			leaving, cancel := context.WithCancel(t.Context())
			first := flight.Begin(&g, leaving, "key", func(context.Context) (*int, error) { time.Sleep(s); return nil, errNone })
			synctest.Wait()
			cancel()
			<-first
			ctx := &late{Context: t.Context(), ends: 2, done: make(chan struct{}), atEnd: func() {
				time.Sleep(s)
				synctest.Wait()
			}}
			if v, coalesced, err := g.Do(ctx, "key", value(s)); v != nil || coalesced || err != context.Canceled {
				t.Errorf("%v, %v, %v: want the context's own error", v, coalesced, err)
			}
			if st := g.Stats(); st != (stats{Runs: 1, Abandoned: 1}) {
				t.Errorf("%+v: want one run", st)
			}
		})
	}
}
