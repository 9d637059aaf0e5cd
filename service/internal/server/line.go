package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/heap"
)

// errMoved tells those who wait that the rule they wait under is gone.
var errMoved = errors.New("server: the rules have changed")

// lines are those who wait for the buckets of one rule. A line exists while
// somebody waits in it; one timer, that of the line whose turn is next, serves
// them all.
type lines struct {
	server  *Server
	live    *live
	waiting atomic.Int64 // in all lines; written under mu

	mu    sync.Mutex // guards what follows, and all in it
	of    map[spot]*line
	own   map[string][]*line // those with a limit of their own, by bucket
	over  bool               // nobody comes in any more: the rule is gone
	due   *heap.Heap[*line]  // by turn
	timer *time.Timer        // nil until somebody waits
}

// A spot is where a line stands: those with a limit of their own stand apart, so
// that they hold up nobody else.
type spot struct {
	bucket string
	limit  int // 0 without
}

// A line is those who wait for one bucket, first come, first served: only the
// first asks for tokens.
type line struct {
	spot
	first, last *waiter
	n           int           // waiters
	tokens      int           // that they wait for
	turn        time.Duration // when the first is to ask again
	at          int           // in turns
}

// A waiter is a request in a line.
type waiter struct {
	n          int
	came       uint64 // the lower, the earlier
	spot       spot
	line       *line // nil once it is answered, or has left
	prev, next *waiter
	answer     chan granted // of capacity 1; only who takes it out of the line sends
}

// granted is how a wait ended: with a decision, or with an error.
type granted struct {
	weir.Decision
	err error
}

func (l *lines) init(s *Server, of *live) {
	l.server, l.live, l.of, l.own = s, of, map[spot]*line{}, map[string][]*line{}
	l.due = heap.New(func(a, b *line) bool { return a.turn < b.turn }).Track(func(q *line, at int) { q.at = at })
}

// behind decides for somebody who does not want to wait while others do: not
// before they have had their turn.
func (l *lines) behind(r *Rule, key string, now time.Time, n, limit int) (weir.Decision, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := spot{r.bucket(key), limit}
	q := l.of[at]
	if q == nil && limit > 0 {
		q = l.of[spot{bucket: at.bucket}]
	}
	if q == nil {
		return weir.Decision{}, false
	}
	d := l.live.look(q.bucket, l.live.buckets.number(q.bucket), now, 0, 0)
	d.OK, d.Remaining = false, 0
	if d.RetryAfter = weir.Never; n <= r.within(limit) {
		d.RetryAfter = l.live.buckets.ahead(q.bucket, q.tokens+max(n, 1), limit)
	}
	return d, true
}

// wait stands in line for a request. It returns with the decision in a; or with
// the reason why it is refused, and in a when it would have its turn; or with an
// error.
func (l *lines) wait(ctx context.Context, r *Rule, req *Request, limit int, a *Answer, v *Verdict) (weir.Reason, error) {
	longest, why := waitFor(ctx, r)
	w, why, err := l.enter(r, req, limit, longest, why, a, v)
	if w == nil {
		return why, err
	}
	defer l.server.waiting.Add(-1)
	if req.Caller != nil {
		req.Caller.Waits()
	}
	start := time.Now()
	defer func() { v.Waited += time.Since(start) }()
	var late <-chan time.Time
	if r.MaxWait > 0 {
		timer := time.NewTimer(r.MaxWait)
		defer timer.Stop()
		late = timer.C
	}
	// The answer cannot be lost: a waiter is taken out of its line, and answered,
	// under the lock. So if leave finds it gone, the answer is in the channel.
	select {
	case g := <-w.answer:
		return l.take(g, a, start)
	case <-ctx.Done():
		if ctx.Err() == context.DeadlineExceeded {
			l.serve(w.spot.bucket) // a turn by the deadline counts, whichever timer is heard first
		} else {
			l.leave(w)
			return 0, ctx.Err()
		}
		if l.out(w) {
			l.live.counts.cancelled.Add(1)
			return 0, ctx.Err()
		}
	case <-late:
		l.serve(w.spot.bucket)
		if l.out(w) {
			a.RetryAfter = l.live.buckets.ahead(w.spot.bucket, req.N, limit)
			return weir.Overdue, nil
		}
	}
	return l.take(<-w.answer, a, start)
}

// leave takes out a waiter whose caller has left, and gives back what it has
// been granted meanwhile.
func (l *lines) leave(w *waiter) {
	l.live.counts.cancelled.Add(1)
	if l.out(w) {
		return
	}
	if g := <-w.answer; g.err == nil {
		l.live.buckets.settle(w.spot.bucket, time.Now(), w.n, 0)
		l.serve(w.spot.bucket)
	}
}

// take is the end of a wait that was answered.
func (l *lines) take(g granted, a *Answer, start time.Time) (weir.Reason, error) {
	if rejected, ok := g.err.(*weir.Rejection); ok {
		a.RetryAfter = rejected.RetryAfter
		return rejected.Reason, nil
	}
	if g.err == nil {
		a.Decision = g.Decision
		l.live.counts.waited.add(time.Since(start))
	}
	return 0, g.err
}

// enter puts a request at the end of its line, or says why not. One that stood in
// line before the rules changed comes before those who have come since.
func (l *lines) enter(r *Rule, req *Request, limit int, longest time.Duration, why weir.Reason, a *Answer, v *Verdict) (*waiter, weir.Reason, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil, 0, errMoved
	}
	again := v.came > 0
	if !again {
		v.came = l.server.came.Add(1)
	}
	at := spot{r.bucket(req.Key), limit}
	q := l.of[at]
	before, tokens := q.before(v.came)
	eta := l.live.buckets.ahead(at.bucket, tokens+req.N, limit)
	a.RetryAfter = eta
	if !again {
		v.Place += before
	}
	switch {
	case l.server.closed.Load():
		a.RetryAfter = drainRetry
		return nil, weir.Closed, nil
	case eta > longest:
		return nil, why, nil
	case before >= l.room(r, req):
		return nil, weir.QueueFull, nil
	case l.server.waiting.Add(1) > int64(max(l.server.cfg.MaxWaiting, 0)):
		l.server.waiting.Add(-1)
		return nil, weir.QueueFull, nil
	}
	w := &waiter{n: req.N, came: v.came, spot: at, answer: make(chan granted, 1)}
	if q == nil {
		q = &line{spot: at, at: -1}
		if l.of[at] = q; limit > 0 {
			l.own[at.bucket] = append(l.own[at.bucket], q)
		}
	}
	l.waiting.Add(1)
	q.push(w)
	l.advance(q)
	return w, 0, nil
}

// room returns how many may wait in a line as far as a request is concerned.
func (l *lines) room(r *Rule, req *Request) int {
	if req.OwnQueue && l.server.cfg.MaxQueue > 0 {
		return min(req.Queue, l.server.cfg.MaxQueue)
	}
	return r.queue()
}

// out takes a waiter out of its line, and reports whether it was still there.
func (l *lines) out(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := w.line
	if q == nil {
		return false
	}
	first := q.first == w
	l.remove(q, w)
	if first && q.first != nil {
		l.advance(q)
	}
	return true
}
