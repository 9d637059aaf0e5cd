package quota

import (
	"cmp"
	"context"
	"slices"

	"github.com/weir-go/weir/service/internal/server/waiting"
)

// When the rules change, a request that waits moves from a Queue to another one, or to
// another place in the same one. For a moment it waits in both, so that no later request
// takes its turn:
//
//	next := to.Reserve(ctx, r)
//	... the rules come into force, and Outdate ...
//	w.Move(next)

// Waiters returns the requests that wait under rules before a version.
func (q *Queue) Waiters(rules uint64) (all []*Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, lines := range q.lines {
		for _, l := range lines {
			for e := l.order.Front(); e != nil; e = e.Next() {
				if w := e.Value.(*Waiter); w.Rules < rules {
					all = append(all, w)
				}
			}
		}
	}
	return all
}

// Reserve adds, in the place of r.Arrival, a request that waits elsewhere and has its
// place in the room, whatever r.MaxQueue is. It returns nil if the wait would take too long.
func (q *Queue) Reserve(ctx context.Context, r *Request) *Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	res := Result{Arrival: r.Arrival}
	last := q.check(ctx, r, &res)
	if res.Reason != 0 {
		return nil
	}
	return q.insert(r, r.Arrival, last)
}

// Outdate gives waiting.ErrMoved to requests that are about to wait under rules before a
// version.
func (q *Queue) Outdate(rules uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rules = rules
}

// Move ends the wait with waiting.ErrMoved. The request waits at next from then on or, if
// that is nil, nowhere. If the wait has ended already, so does that at next.
func (w *Waiter) Move(next *Waiter) {
	if !w.move(next) && next != nil {
		next.forget()
	}
}

func (w *Waiter) move(next *Waiter) bool {
	w.Queue.mu.Lock()
	defer w.Queue.mu.Unlock()
	if w.place == nil {
		return false
	}
	first := w.line.order.Front() == w.place
	w.Queue.answer(w, answer{err: waiting.ErrMoved, next: next})
	if first && w.line.order.Len() > 0 {
		w.Queue.advance(w.line)
	}
	return true
}

// DismissMoved answers the requests in slots that another node owns now, in order of arrival,
// with the error of the room.
func (q *Queue) DismissMoved() {
	q.mu.Lock()
	defer q.mu.Unlock()
	var moved []*Waiter
	for _, lines := range q.lines {
		for _, l := range lines {
			for e := l.order.Front(); e != nil; e = e.Next() {
				if w := e.Value.(*Waiter); q.room.Owned(w.Slot) != nil {
					moved = append(moved, w)
				}
			}
		}
	}
	slices.SortFunc(moved, func(a, b *Waiter) int { return cmp.Compare(a.Arrived, b.Arrived) })
	for _, w := range moved {
		q.answer(w, answer{err: q.room.Owned(w.Slot)})
	}
	for bucket := range q.lines { // a request may be first now
		q.serve(bucket)
	}
}

// Return returns the tokens that Await has given.
func (w *Waiter) Return() { w.undo(answer{}) }

// forget ends a wait that no caller awaits.
func (w *Waiter) forget() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	a, err := w.call.Await(over, 0, func(bool) bool { return w.Queue.leave(w, false) }, w.undo)
	if err == nil {
		w.undo(a)
	}
}
