//go:build !race

package flight_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/flight"
)

// hurried is a context that ends once it has been waited for.
type hurried struct {
	context.Context
	done chan struct{}
	err  error
}

func (h *hurried) Done() <-chan struct{} { h.err = context.Canceled; return h.done }
func (h *hurried) Err() error            { return h.err }

// newHurried returns a context with a nil Err until Done is called.
func newHurried() *hurried {
	done := make(chan struct{})
	close(done)
	return &hurried{context.Background(), done, nil}
}

func allocates(t *testing.T, what string, want float64, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, f); n != want {
		t.Errorf("%s: %v allocations: want %v", what, n, want)
	}
}

func TestAllocations(t *testing.T) {
	var g flight.Group[string, *int]
	ctx, v := context.Background(), new(int)
	fn := func(context.Context) (*int, error) { return v, nil }
	allocates(t, "a call alone", 0, func() { _, _, _ = g.Do(ctx, "key", fn) })
	allocates(t, "that fails", 0, func() {
		_, _, _ = g.Do(ctx, "key", func(context.Context) (*int, error) { return nil, errNone })
	})
	unbounded := flight.Group[string, *int]{Timeout: -1}
	allocates(t, "with a Timeout that is none", 0, func() { _, _, _ = unbounded.Do(ctx, "key", fn) })
	nested := func(context.Context) (*int, error) { _, _, err := g.Do(ctx, "another", fn); return v, err }
	allocates(t, "one within another", 0, func() { _, _, _ = g.Do(ctx, "key", nested) })
	allocates(t, "Forget and Stats", 0, func() { g.Forget("key"); g.Stats() })

	// None is to be used again. The first to join makes the channel, on which all others wait.
	g = flight.Group[string, *int]{}
	join := func(n int) func() {
		h := newHurried()
		inside := func(context.Context) (*int, error) {
			for range n {
				if h.err = nil; h.Err() == nil {
					_, _, _ = g.Do(h, "joined", fn)
				}
			}
			return v, nil
		}
		return func() { _, _, _ = g.Do(ctx, "joined", inside) }
	}
	allocates(t, "one to join: a run and a channel", 2, join(1))
	allocates(t, "a hundred to join", 2, join(100))
	if st := g.Stats(); st.Coalesced != 101*1001 {
		t.Errorf("%+v: want everybody to join", st)
	}
}
