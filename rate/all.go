package rate

import (
	"context"
	"slices"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/waitq"
)

// multi is several Limiters at once.
type multi struct{ limiters []*Limiter }

// All combines several Limiters, as in "10 a second, and 1000 an hour". Without any,
// it allows everything. The Limiters may be used on their own, too.
//
// Acquire waits in the queues of all Limiters at once, and takes n tokens of each,
// or of none. If one refuses, the error is its *weir.Rejection, and the others get
// their tokens back. (If it refuses only later, because its limit changes, Acquire
// returns when the Limiters before it have granted.) Use of the Permit settles the
// cost with each. Acquire panics if n < 0.
func All(limiters ...*Limiter) weir.Limiter {
	return &multi{slices.Clone(limiters)}
}

// wait takes n tokens of every Limiter, or of none.
func (m *multi) wait(ctx context.Context, n int) error {
	waiters := make([]*waitq.TokenWaiter, 0, len(m.limiters)) // nil: it has granted
	for _, l := range m.limiters {
		w, err := l.enter(ctx, n)
		if err != nil {
			m.undo(waiters, n)
			return err
		}
		waiters = append(waiters, w)
	}
	for i, w := range waiters {
		if w == nil {
			continue
		}
		if err := w.Await(ctx, m.limiters[i].waiting()); err != nil {
			m.undo(waiters[:i], n)
			(&multi{m.limiters[i+1:]}).undo(waiters[i+1:], n)
			return err
		}
		waiters[i] = nil
	}
	return nil
}

// undo gives back the tokens that the first Limiters have granted, and leaves their
// queues.
func (m *multi) undo(first []*waitq.TokenWaiter, n int) {
	for i, w := range first {
		m.limiters[i].undo(w, n)
	}
}

func (l *Limiter) undo(w *waitq.TokenWaiter, n int) {
	if w == nil {
		l.settle(n, 0)
	} else {
		w.Abandon(l.waiting())
	}
}

func (m *multi) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := m.wait(ctx, n); err != nil {
		return weir.Permit{}, err
	}
	held := make([]int, len(m.limiters))
	for i := range held {
		held[i] = m.limiters[i].held(n)
	}
	o := &multiOwner{limiters: m.limiters, held: held}
	o.owner = o
	return weir.NewPermit(&o.owner, weir.Grant{N: n}), nil
}

// A multiOwner owns one Permit.
type multiOwner struct {
	owner    weir.Owner // itself
	limiters []*Limiter
	held     []int // of each
}

func (o *multiOwner) Use(_ weir.Grant, n int) int {
	for i, l := range o.limiters {
		o.held[i] = l.settle(o.held[i], n)
	}
	return n
}

func (o *multiOwner) Release(weir.Grant, weir.Outcome) {}
