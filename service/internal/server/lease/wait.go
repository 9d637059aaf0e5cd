package lease

import (
	"cmp"
	"container/list"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A Plan is the rules under which a lease is granted, in the order in which it gets their
// units. newPlan makes it.
type Plan struct {
	rules uint64 // their version
	terms rules.LeaseTerms
	under []Under
}

// newPlan returns the Plan for a version of the rules. It sorts under, and keeps it.
//
// All requests ask in the same order, so that no two wait for each other. The shadow rules,
// for which no request waits, come last.
func newPlan(rules uint64, terms rules.LeaseTerms, under []Under) Plan {
	slices.SortFunc(under, func(a, b Under) int {
		switch {
		case a.Shadow == b.Shadow:
			return cmp.Compare(a.Limits.order, b.Limits.order)
		case a.Shadow:
			return 1
		}
		return -1
	})
	return Plan{rules, terms, under}
}

// A Wait is the history of a request for a lease. A request that asks again has its old
// place among the requests that wait.
type Wait struct {
	arrival uint64        // of its first wait; 0 before that
	began   time.Duration // when the request first asked, on the node's clock
	parts   []part        // units that it holds while it asks again
	// OnWait, if not nil, is called when the request has got its first place in a line.
	OnWait func()
}

// A queue holds the requests that wait for leases. Each of them waits in the line of one
// bucket, in the order of the first waits. While there is a line, no other request gets
// units. A request that gets its units of one rule is at once in the line for the next rule.
//
// The goroutine of a waiter looks at its place, then blocks until its turn ends: in the
// limiter if it is the first of its line, until there are units, or else until its place has
// changed. The units are for the request that is the first then. A change cannot be lost,
// because a turn begins in the critical section of the look.
type queue struct {
	clock *clock.Clock
	room  *waiting.Room

	mu        sync.Mutex // guards what follows, all lines and waiters. It is taken before Limits.mu
	rules     uint64     // the least Plan.rules of a request that may begin to wait
	dismissed bool       // no request waits any more
	waiters   map[*waiter]struct{}
}

// A waiter is a request in a line.
type waiter struct {
	holding  // with units of the first rules of the plan
	plan     Plan
	arrival  uint64
	began    time.Duration // when the request first asked
	joined   time.Duration // when it began to wait under this rule
	deadline time.Duration // of its caller

	bucket  *bucket       // for which it waits; nil once the wait has ended
	place   *list.Element // in the line of the bucket
	err     error         // why the wait has ended; nil if it has the units
	endTurn func()
	overdue *time.Timer // ends the wait; nil if there is no bound
}

// wait waits for units of a bucket, the one of the next rule in the plan, and then for units of
// each later rule that is not a shadow rule. When it returns nil, h holds units of all these
// rules. The rules can change meanwhile: wait sets plan to the one under which h holds its units.
// The request already uses the bucket. If it gets no place in the line, wait ends that use.
func (q *queue) wait(ctx context.Context, b *bucket, h *holding, plan *Plan, again *Wait) error {
	w := &waiter{
		holding: *h, plan: Plan{plan.rules, plan.terms, slices.Clone(plan.under)},
		began: again.began, deadline: weir.Never, endTurn: func() {},
	}
	if at, ok := ctx.Deadline(); ok {
		w.deadline = q.clock.Now() + time.Until(at)
	}
	if err := q.enter(w, b, again); err != nil {
		b.limits.leave(b, 0)
		return err
	}
	if onWait := again.OnWait; onWait != nil {
		again.OnWait = nil
		onWait()
	}
	err := q.await(ctx, w)
	h.parts, h.inflight, *plan = w.parts, w.inflight, w.plan
	return err
}

// enter adds a request to the line of a bucket, or returns why it may not wait.
func (q *queue) enter(w *waiter, b *bucket, again *Wait) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.plan.rules < q.rules {
		return waiting.ErrMoved
	}
	if q.dismissed || again.arrival == 0 && q.room.Closed() { // either this sees it, or Dismiss sees the waiter
		return b.limits.refuse(weir.Closed, waiting.DrainRetry)
	}
	if err := q.room.Owned(w.slot); err != nil { // either this sees it, or DismissMoved sees the waiter
		return err
	}
	again.arrival = cmp.Or(again.arrival, q.room.Arrival())
	w.arrival, w.joined = again.arrival, q.clock.Now()
	ahead, last := b.ahead(w.arrival)
	why := q.check(w, b, ahead)
	if why == 0 && !q.room.Enter() {
		why = weir.QueueFull
	}
	if why != 0 {
		return b.limits.refuse(why, b.returns(w.N, ahead))
	}
	q.waiters[w] = struct{}{}
	q.insert(w, b, last)
	return nil
}

// check returns why a request may not wait in the line of a bucket, with ahead units before
// it.
func (q *queue) check(w *waiter, b *bucket, ahead int) weir.Reason {
	size := config.QueueSize(b.limits.concurrency().Queue)
	switch {
	case b.lasts(ahead) > w.deadline-q.clock.Now():
		return weir.TooLate
	case size <= 0 || w.N > b.limiter.State().Limit:
		return weir.OverLimit
	case b.line.Len() >= size:
		return weir.QueueFull
	}
	return 0
}

// advance lets a request, which is in no line, take the units of the next rules of its plan.
// It waits where they are not free. If it has been moved, it may wait in any line.
func (q *queue) advance(w *waiter, moved bool) {
	for i := len(w.parts); i < len(w.plan.under) && !w.plan.under[i].Shadow; i++ {
		b, err := w.ask(&w.plan.under[i], true, w.plan.rules)
		if err != nil {
			q.end(w, err)
			return
		}
		if b == nil {
			continue
		}
		ahead, last := b.ahead(w.arrival)
		if why := q.check(w, b, ahead); why != 0 && !moved {
			b.limits.leave(b, 0)
			q.end(w, b.limits.refuse(why, b.returns(w.N, ahead)))
			return
		}
		q.insert(w, b, last)
		return
	}
	q.end(w, nil)
}

// insert puts a waiter behind last in the line of a bucket, or before all if that is nil.
func (q *queue) insert(w *waiter, b *bucket, last *list.Element) {
	if last != nil {
		w.place = b.line.InsertAfter(w, last)
	} else {
		if first := b.first(); first != nil {
			first.endTurn()
		}
		w.place = b.line.PushFront(w)
	}
	w.bucket = b
	b.queued.Add(int64(w.N))
	b.limits.waiting.Add(1)
	q.bound(w)
}

// remove takes a waiter out of its line, and ends its turn.
func (q *queue) remove(w *waiter) {
	b, first := w.bucket, w.bucket.first()
	b.line.Remove(w.place)
	b.queued.Add(-int64(w.N))
	b.limits.waiting.Add(-1)
	if next := b.first(); first == w && next != nil {
		next.endTurn()
	}
	w.bucket, w.place = nil, nil
	w.endTurn()
}

// first returns the first request in the line of a bucket; nil if there is none.
func (b *bucket) first() *waiter {
	if front := b.line.Front(); front != nil {
		return front.Value.(*waiter)
	}
	return nil
}

// refuse ends the wait of a request in a line with an error.
func (q *queue) refuse(w *waiter, err error) {
	b := w.bucket
	q.remove(w)
	b.limits.leave(b, 0)
	q.end(w, err)
}

// end ends the wait of a request that is in no line.
func (q *queue) end(w *waiter, err error) {
	w.err = err
	if w.overdue != nil {
		w.overdue.Stop()
	}
	delete(q.waiters, w)
	q.room.Leave()
}

// bound bounds the wait by the longest wait of its rule, from when the request first asked.
func (q *queue) bound(w *waiter) {
	if w.overdue != nil {
		w.overdue.Stop()
		w.overdue = nil
	}
	longest := w.bucket.limits.concurrency().MaxWait
	if longest <= 0 {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(max(w.began+longest-q.clock.Now(), 0), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if b := w.bucket; b != nil && w.overdue == timer {
			ahead, _ := b.ahead(w.arrival)
			q.refuse(w, b.limits.refuse(weir.Overdue, b.returns(w.N, ahead)))
		}
	})
	w.overdue = timer
}

// await blocks until the wait has ended.
func (q *queue) await(ctx context.Context, w *waiter) error {
	for {
		turn, endTurn := context.WithCancel(ctx)
		b, first := q.look(w, endTurn)
		var p weir.Permit
		var err error
		switch {
		case b == nil: // the wait has ended
		case first:
			p, err = b.limiter.Acquire(turn, w.N)
		default:
			<-turn.Done()
			err = turn.Err()
		}
		endTurn()
		if b == nil || q.decide(ctx, w, b, &p, err) {
			return w.err
		}
	}
}

// look begins a turn. It returns where the request waits, and whether it is first there.
func (q *queue) look(w *waiter, endTurn func()) (b *bucket, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.bucket == nil {
		return nil, false
	}
	w.endTurn = endTurn
	return w.bucket, w == w.bucket.first()
}

// decide takes the outcome of a turn in the line of b: a permit or an error. It reports
// whether the wait has ended.
func (q *queue) decide(ctx context.Context, w *waiter, b *bucket, p *weir.Permit, err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	rejected, _ := err.(*weir.Rejection)
	switch {
	case err == nil:
		if first := b.first(); first != nil && first.N == w.N { // the request itself, as a rule
			q.grant(first, p)
		} else {
			p.Release(weir.Ignored)
		}
		q.serve(b)
	case w.bucket == nil:
	case ctx.Err() != nil:
		w.bucket.limits.cancelled.Add(1)
		q.refuse(w, ctx.Err())
	case rejected != nil && w.bucket == b && w == b.first(): // the limit is smaller than it was on arrival
		q.refuse(w, b.limits.refuse(rejected.Reason, b.returns(w.N, 0)))
	}
	return w.bucket == nil
}

// serve gives units that are free to the line of a bucket. It has no effect while a request
// waits in the limiter, which gives the units to that. It follows each release: between the
// turns of two requests, none waits in the limiter.
func (q *queue) serve(b *bucket) {
	for first := b.first(); first != nil; first = b.first() {
		p, ok := b.limiter.TryAcquire(context.Background(), first.N)
		if !ok {
			return
		}
		q.grant(first, &p)
	}
}

// serve serves the line of a bucket, if there is one.
func (b *bucket) serve() {
	if b.queued.Load() > 0 {
		q := &b.limits.registry.queue
		q.mu.Lock()
		defer q.mu.Unlock()
		q.serve(b)
	}
}

// grant gives a request the units that it waits for.
func (q *queue) grant(w *waiter, p *weir.Permit) {
	now := q.clock.Now()
	w.hold(w.bucket, p, false)
	w.bucket.limits.times.Add(now - w.joined)
	w.joined = now
	q.remove(w)
	q.advance(w, false)
}

// Dismiss rejects all requests that wait, and all that would.
func (g *Registry) Dismiss(retryAfter time.Duration) {
	q := &g.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dismissed = true
	for w := range q.waiters {
		q.refuse(w, w.bucket.limits.refuse(weir.Closed, retryAfter))
	}
}

// DismissMoved ends the waits for leases in slots that another node owns now, in order of
// arrival, with the error of the room.
func (g *Registry) DismissMoved() {
	q := &g.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(q.waiters), func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	for _, w := range all {
		if err := q.room.Owned(w.slot); err != nil {
			q.refuse(w, err)
		}
	}
}

// refuse counts a refusal.
func (l *Limits) refuse(why weir.Reason, retryAfter time.Duration) error {
	l.refused.Add(why)
	return weir.Reject(why, retryAfter)
}

// ahead returns how many units the requests ask for that came to the line of a bucket
// before another one, and the last of these requests. The caller holds queue.mu.
func (b *bucket) ahead(arrival uint64) (units int, last *list.Element) {
	units, last = int(b.queued.Load()), b.line.Back()
	for last != nil && last.Value.(*waiter).arrival > arrival { // mostly at once
		units, last = units-last.Value.(*waiter).N, last.Prev()
	}
	return units, last
}

// returns estimates when n units may be available to a request with ahead units before it.
func (b *bucket) returns(n, ahead int) time.Duration {
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	if n > maxLimit(b.limits.terms) {
		return weir.Never
	}
	return b.lastsLocked(ahead + n)
}

// lasts is lastsLocked.
func (b *bucket) lasts(units int) time.Duration {
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	return b.lastsLocked(units)
}

// lastsLocked estimates, by Little's law, the time until a number of units have been
// returned; 0 if unknown.
func (b *bucket) lastsLocked(units int) time.Duration {
	wait := float64(b.usual) * float64(units) / float64(max(b.limiter.State().Limit, 1))
	return time.Duration(min(wait, math.MaxInt64/2))
}
