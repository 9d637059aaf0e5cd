package quota

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/heap"
	"github.com/weir-go/weir/internal/waitq"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A Queue holds the requests that wait for the Buckets of one rule, in order of
// arrival for each bucket. Requests with the same limit of their own form a line
// of their own, so that they do not delay the others. One timer serves all lines.
type Queue struct {
	clock   *clock.Clock
	room    *waiting.Room
	buckets Buckets
	waiting atomic.Int64 // written under mu

	mu    sync.Mutex // guards what follows, and all lines
	lines map[string][]*line
	rules uint64            // the least Request.Rules of a request that may begin to wait
	due   *heap.Heap[*line] // by turn
	timer waitq.Timer
}

// Init makes an empty Queue, once, before it is used.
func (q *Queue) Init(c *clock.Clock, room *waiting.Room, buckets Buckets) {
	q.clock, q.room, q.buckets, q.lines = c, room, buckets, map[string][]*line{}
	q.timer.Wake = q.wake
	q.due = heap.New(func(a, b *line) bool { return a.turn < b.turn }).Track(func(l *line, at int) { l.at = at })
}

// A Request asks for tokens of a bucket.
type Request struct {
	Slot     uint16 // of the key
	Bucket   string
	N        int
	OwnLimit int  // if > 0, it replaces the limit of the rule
	Limit    int  // what the methods of Buckets take: OwnLimit, or that of shared windows
	Tracked  bool // as in Buckets
	Stats    *waiting.Stats

	// For Wait:
	MaxQueue int           // requests that may wait in the line
	MaxWait  time.Duration // if zero, there is no bound but the context's
	Arrival  uint64        // of an earlier Wait that ended with ErrMoved, or zero
	OnWait   func()        // if not nil, it is called before the request waits
	Rules    uint64        // the version of the rules by which the request waits here
	Caller   any           // for the caller of Waiters
}

// A Result is the outcome of a wait.
type Result struct {
	weir.Decision             // of the request; if refused, RetryAfter alone
	Reason        weir.Reason // of a refusal, or zero
	Arrival       uint64
	Place         int // requests that were before this one when it arrived
	Waited        time.Duration
	Next          *Waiter // with ErrMoved: where the request waits now; nil if it does not
}

// A line is the requests that wait for one bucket with the same OwnLimit. Only
// the first of them asks for tokens.
type line struct {
	bucket   string
	ownLimit int
	order    list.List     // of *Waiter, by arrival
	tokens   int           // that the requests ask for
	turn     time.Duration // when the first request asks again
	at       int           // in Queue.due, -1 if it is not
}

// A Waiter is a request in a line.
type Waiter struct {
	*Request
	Queue   *Queue
	Arrived uint64        // its number
	Since   time.Duration // when it began to wait here
	line    *line
	place   *list.Element // nil once it has left; guarded by Queue.mu
	call    waitq.Call[answer]
}

type answer struct {
	weir.Decision
	err  error
	next *Waiter // with waiting.ErrMoved
}

// first returns the request that has waited longest.
func (l *line) first() *Waiter { return l.order.Front().Value.(*Waiter) }

// before returns how many requests of a line arrived before another one, how many
// tokens they ask for, and the last of them. The line may be nil.
func (l *line) before(arrival uint64) (n, tokens int, last *list.Element) {
	if l == nil {
		return 0, 0, nil
	}
	n, tokens, last = l.order.Len(), l.tokens, l.order.Back()
	for last != nil && last.Value.(*Waiter).Arrived > arrival { // mostly at once
		n, tokens, last = n-1, tokens-last.Value.(*Waiter).N, last.Prev()
	}
	return n, tokens, last
}

// Look reports whether one token is available, without taking it; under FixedWindow,
// whether no more than the limit is counted.
func Look(b Buckets, bucket string, fingerprint uint64, at time.Duration, limit int) weir.Decision {
	if w, ok := b.(*clockWindows); ok {
		return w.look(bucket, fingerprint, at, limit)
	}
	d := b.Take(bucket, fingerprint, at, 0, limit, false)
	if d.OK = d.Remaining > 0; !d.OK {
		d.RetryAfter = b.Ahead(bucket, 1, limit)
	}
	return d
}

// Now returns the instant, on the clock of the node.
func (q *Queue) Now() time.Duration { return q.clock.Now() }

// Busy reports whether requests wait.
func (q *Queue) Busy() bool { return q.waiting.Load() > 0 }

// Decide takes n tokens of a bucket unless requests wait for them; n = 0 looks. ownLimit, limit and tracked are as in Request,
// within is as in Behind.
func (q *Queue) Decide(bucket string, fingerprint uint64, at time.Duration, n, ownLimit, limit, within int, tracked bool) weir.Decision {
	if q.Busy() {
		if d, ok := q.Behind(bucket, at, n, ownLimit, limit, within); ok {
			return d
		}
	}
	if n > 0 {
		return q.buckets.Take(bucket, fingerprint, at, n, limit, tracked)
	}
	return Look(q.buckets, bucket, fingerprint, at, limit)
}

// Behind refuses a request that does not wait while others wait for its bucket;
// ok is false if there are none. The request can have at most the tokens within at
// once; ownLimit and limit are as in Request.
func (q *Queue) Behind(bucket string, at time.Duration, n, ownLimit, limit, within int) (d weir.Decision, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.find(bucket, ownLimit)
	if l == nil && ownLimit > 0 {
		l = q.find(bucket, 0)
	}
	if l == nil {
		return weir.Decision{}, false
	}
	d = Look(q.buckets, l.bucket, q.buckets.Fingerprint(l.bucket), at, l.first().Limit)
	d.OK, d.Remaining = false, 0
	if d.RetryAfter = weir.Never; n <= within {
		d.RetryAfter = q.buckets.Ahead(l.bucket, l.tokens+max(n, 1), limit)
	}
	return d, true
}

func (q *Queue) find(bucket string, ownLimit int) *line {
	for _, l := range q.lines[bucket] {
		if l.ownLimit == ownLimit {
			return l
		}
	}
	return nil
}

// Wait waits for the tokens of a request. The error is ctx.Err() or
// waiting.ErrMoved. If it comes with a Next, the caller must call Await for that.
func (q *Queue) Wait(ctx context.Context, r *Request) (Result, error) {
	res := Result{Arrival: r.Arrival}
	w, err := q.enter(ctx, r, &res)
	if w == nil {
		return res, err
	}
	if r.OnWait != nil {
		r.OnWait()
	}
	return w.await(ctx, res)
}

// Await is the rest of a Wait that has moved here.
func (w *Waiter) Await(ctx context.Context) (Result, error) {
	return w.await(ctx, Result{Arrival: w.Arrived})
}

// await blocks until the request has its answer, or its time is over. The request
// leaves the room unless it goes on to wait elsewhere.
func (w *Waiter) await(ctx context.Context, res Result) (Result, error) {
	q, start := w.Queue, time.Now()
	a, err := w.call.Await(ctx, w.MaxWait, func(expired bool) bool { return q.leave(w, expired) }, w.undo)
	res.Waited = time.Since(start)
	if res.Next = a.next; res.Next == nil {
		defer q.room.Leave()
	}
	if err == nil {
		err = a.err
	} else if err == waitq.ErrOverdue {
		err = weir.Reject(weir.Overdue, q.buckets.Ahead(w.Bucket, w.N, w.Limit))
	} else {
		w.Stats.Cancelled.Add(1)
	}
	if rejection, ok := err.(*weir.Rejection); ok {
		res.Reason, res.RetryAfter = rejection.Reason, rejection.RetryAfter
		return res, nil
	}
	if err == nil {
		res.Decision = a.Decision
		w.Stats.Times.Add(res.Waited)
	}
	return res, err
}

// undo takes back an answer that comes after the caller has left.
func (w *Waiter) undo(a answer) {
	switch {
	case a.next != nil:
		a.next.forget()
	case a.err == nil:
		w.Queue.Settle(w.Bucket, w.Queue.clock.Now(), w.N, 0)
	}
}

// enter adds a request to its line, or sets in res why not.
func (q *Queue) enter(ctx context.Context, r *Request, res *Result) (*Waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.Rules < q.rules {
		return nil, waiting.ErrMoved
	}
	if err := q.room.Owned(r.Slot); err != nil { // either this sees it, or DismissMoved sees the waiter
		return nil, err
	}
	if res.Arrival == 0 {
		res.Arrival = q.room.Arrival()
	}
	last := q.check(ctx, r, res)
	switch {
	case q.room.Closed():
		res.Reason, res.RetryAfter = weir.Closed, waiting.DrainRetry
	case res.Reason == 0 && (res.Place >= r.MaxQueue || !q.room.Enter()):
		res.Reason = weir.QueueFull
	}
	if res.Reason != 0 {
		return nil, nil
	}
	return q.insert(r, res.Arrival, last), nil
}

// check sets in res the place of a request, and why it may not wait for as long as that
// takes. It returns the last request before it in its line.
func (q *Queue) check(ctx context.Context, r *Request, res *Result) (last *list.Element) {
	longest, why := weir.Never, weir.TooLate
	if deadline, ok := ctx.Deadline(); ok {
		longest = time.Until(deadline)
	}
	if r.MaxWait > 0 && r.MaxWait < longest {
		longest, why = r.MaxWait, weir.OverRate
	}
	before, tokens, last := q.find(r.Bucket, r.OwnLimit).before(res.Arrival)
	res.Place, res.RetryAfter = before, q.buckets.Ahead(r.Bucket, tokens+r.N, r.Limit)
	if res.RetryAfter > longest {
		res.Reason = why
	}
	return last
}

// insert adds a request to its line, behind last.
func (q *Queue) insert(r *Request, arrival uint64, last *list.Element) *Waiter {
	l := q.find(r.Bucket, r.OwnLimit)
	if l == nil {
		l = &line{bucket: r.Bucket, ownLimit: r.OwnLimit, at: -1}
		q.lines[r.Bucket] = append(q.lines[r.Bucket], l)
	}
	w := &Waiter{Request: r, Queue: q, Arrived: arrival, Since: q.clock.Now(), line: l, call: waitq.NewCall[answer]()}
	if last == nil {
		w.place = l.order.PushFront(w)
	} else {
		w.place = l.order.InsertAfter(w, last)
	}
	l.tokens += r.N
	q.waiting.Add(1)
	r.Stats.Waiting.Add(1)
	q.advance(l)
	return w
}

// leave takes a waiter out of its line, and reports whether it was still there. If
// time ran out, it first answers all requests that have their turn by now.
func (q *Queue) leave(w *Waiter, expired bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if expired {
		q.serve(w.Bucket)
	}
	first := w.line.order.Front() == w.place
	if !q.remove(w) {
		return false
	}
	if first && w.line.order.Len() > 0 {
		q.advance(w.line)
	}
	return true
}

// remove takes a waiter out of its line, and reports whether it was there.
func (q *Queue) remove(w *Waiter) bool {
	l := w.line
	if w.place == nil {
		return false
	}
	l.order.Remove(w.place)
	w.place = nil
	l.tokens -= w.N
	q.waiting.Add(-1)
	w.Stats.Waiting.Add(-1)
	if l.order.Len() > 0 {
		return true
	}
	if l.at >= 0 {
		q.due.Remove(l.at)
	}
	lines := q.lines[l.bucket]
	if len(lines) == 1 {
		delete(q.lines, l.bucket)
		return true
	}
	i := slices.Index(lines, l)
	q.lines[l.bucket] = slices.Delete(lines, i, i+1)
	return true
}

// answer takes a waiter out of its line, and answers it.
func (q *Queue) answer(w *Waiter, a answer) {
	q.remove(w)
	w.call.Answer(a)
}

// advance answers the requests of a line that can have their tokens, in order,
// and schedules the next one. A turn that is served late is served as of its
// instant: otherwise tokens beyond the burst that came in meanwhile would be lost.
func (q *Queue) advance(l *line) {
	at := q.clock.Now()
	if l.at >= 0 {
		at = min(at, l.turn)
	}
	fingerprint := q.buckets.Fingerprint(l.bucket)
	for l.order.Len() > 0 {
		w := l.first()
		d := q.buckets.Take(l.bucket, fingerprint, at, w.N, w.Limit, w.Tracked)
		switch {
		case d.OK:
			q.answer(w, answer{Decision: d})
		case d.RetryAfter == weir.Never: // the limit is smaller than it was on arrival
			q.answer(w, answer{err: weir.Reject(weir.OverBurst, weir.Never)})
		default:
			if at += min(max(d.RetryAfter, 1), weir.Never-at); at > q.clock.Now() {
				q.schedule(l, at)
				return
			}
		}
	}
}

// schedule sets the instant at which a line is served.
func (q *Queue) schedule(l *line, at time.Duration) {
	l.turn = at
	if l.at < 0 {
		q.due.Push(l)
	} else {
		q.due.Fix(l.at)
	}
	q.arm()
}

func (q *Queue) arm() {
	if q.due.Len() > 0 {
		q.timer.Arm(q.clock.Now(), q.due.Min().turn)
	} else {
		q.timer.Stop()
	}
}

// wake serves all lines that have their turn by now.
func (q *Queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer.Fired()
	now := q.clock.Now()
	for q.due.Len() > 0 && q.due.Min().turn <= now {
		q.advance(q.due.Min())
	}
	q.arm()
}

// Serve answers the requests that can have their tokens, after tokens were
// returned to a bucket.
func (q *Queue) Serve(bucket string) {
	if q.waiting.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.serve(bucket)
}

func (q *Queue) serve(bucket string) {
	for _, l := range slices.Clone(q.lines[bucket]) { // advance may remove the line
		q.advance(l)
	}
}

// Settle is Buckets.Settle. Requests that wait get what is returned.
func (q *Queue) Settle(bucket string, at time.Duration, was, n int) int {
	charged := q.buckets.Settle(bucket, at, was, n)
	if n < was {
		q.Serve(bucket)
	}
	return charged
}

// Reset is Buckets.Reset. Requests that wait get what is returned.
func (q *Queue) Reset(bucket string) (used int) {
	defer q.Serve(bucket)
	return q.buckets.Reset(bucket)
}

// ServeAll is Serve for all buckets, after the quota has changed.
func (q *Queue) ServeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for bucket := range q.lines {
		q.serve(bucket)
	}
}

// Dismiss rejects all requests that wait.
func (q *Queue) Dismiss(why *weir.Rejection) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, lines := range q.lines {
		for _, l := range slices.Clone(lines) {
			for l.order.Len() > 0 {
				q.answer(l.first(), answer{err: why})
			}
		}
	}
}

// Len returns how many requests wait for a bucket.
func (q *Queue) Len(bucket string) (n int) {
	if q.waiting.Load() == 0 {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lines[bucket] {
		n += l.order.Len()
	}
	return n
}
