package rate

import (
	"context"
	"math"
	"slices"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/waitq"
)

// A Multi combines several Limiters, all or nothing: an event happens if every Limiter
// allows it. If one denies it, none of them loses tokens. It is safe for concurrent
// use; its Limiters may be used on their own, too.
type Multi struct{ limiters []*Limiter }

// All returns the Multi of the Limiters, as in "10 a second, and 1000 an
// hour". Without any, it allows everything.
func All(limiters ...*Limiter) *Multi {
	return &Multi{slices.Clone(limiters)}
}

// Take takes n tokens of every Limiter, or of none. The Decision combines theirs: the
// smallest Remaining, and the longest waits. The number is the index, among the
// arguments of All, of the Limiter that binds: if some deny, the one with the longest
// wait; else the one with the fewest tokens left; -1 without any. It panics if n < 0.
//
// Take asks all Limiters before it takes from one. If one then denies all the
// same, because another call took from it in between, the Limiters before it get
// their tokens back.
func (m *Multi) Take(n int) (weir.Decision, int) {
	taken, asIs := newVerdict(), newVerdict() // if all allow, and if not
	for i, l := range m.limiters {
		d := l.look(n)
		taken.add(i, d)
		if d.OK {
			d = l.look(0)
		}
		asIs.add(i, d)
	}
	if !taken.OK || n == 0 {
		return asIs.Decision, asIs.binds
	}
	for i, l := range m.limiters {
		d := l.Take(n)
		if d.OK {
			continue
		}
		for _, l := range m.limiters[:i] {
			l.settle(n, 0)
		}
		asIs.add(i, d)
		return asIs.Decision, asIs.binds
	}
	return taken.Decision, taken.binds
}

// A verdict is the Decision of several Limiters.
type verdict struct {
	weir.Decision
	binds int // the one that it is due to
}

func newVerdict() verdict {
	return verdict{weir.Decision{OK: true, Remaining: math.MaxInt}, -1}
}

func (v *verdict) add(i int, d weir.Decision) {
	switch {
	case v.binds < 0,
		v.OK && !d.OK,
		!d.OK && d.RetryAfter > v.RetryAfter,
		v.OK && d.Remaining < v.Remaining:
		v.binds = i
	}
	v.OK = v.OK && d.OK
	v.Remaining = min(v.Remaining, d.Remaining)
	v.RetryAfter = max(v.RetryAfter, d.RetryAfter)
	v.ResetAfter = max(v.ResetAfter, d.ResetAfter)
}

// Wait waits, in the queues of all Limiters at once, until n events may happen,
// and counts them. If one Limiter refuses, the error is its *weir.Rejection, and
// the number is its index among the arguments of All. (If it refuses only later,
// because its limit changes, Wait returns when the Limiters before it have
// granted.) If ctx ends first, the error is the context's own, and the number is
// the index of the Limiter that Wait waited for. Without an error it is -1. It
// panics if n < 0.
func (m *Multi) Wait(ctx context.Context, n int) (int, error) {
	waiters := make([]*waitq.TokenWaiter, 0, len(m.limiters)) // nil: it has granted
	for i, l := range m.limiters {
		w, err := l.enter(ctx, n)
		if err != nil {
			m.undo(waiters, n)
			return i, err
		}
		waiters = append(waiters, w)
	}
	for i, w := range waiters {
		if w == nil {
			continue
		}
		if err := w.Await(ctx, m.limiters[i].waiting()); err != nil {
			m.undo(waiters[:i], n)
			(&Multi{m.limiters[i+1:]}).undo(waiters[i+1:], n)
			return i, err
		}
		waiters[i] = nil
	}
	return -1, nil
}

// undo gives back the tokens that the first Limiters have granted, and leaves their
// queues.
func (m *Multi) undo(first []*waitq.TokenWaiter, n int) {
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

// Acquire waits as Wait does. Use of the Permit settles the cost with every
// Limiter.
func (m *Multi) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if _, err := m.Wait(ctx, n); err != nil {
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
