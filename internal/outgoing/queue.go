// Package outgoing delays the requests of a client until the server wants them. It
// is the shell around package pacing that httpclient and grpclimit share.
package outgoing

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pacing"
	"github.com/weir-go/weir/internal/retrystep"
	"github.com/weir-go/weir/internal/waitq"
)

// Config bounds a Queue, as httpclient.Config says. The zero value is usable. If
// MaxHold is negative, no Queue must be made.
type Config struct {
	MaxWait time.Duration
	MaxHold time.Duration
	Queue   int
}

// WithDefaults returns c with the defaults of its zero fields. MaxHold is a minute,
// because a wrong Retry-After of a day would otherwise stop the client for a day.
func (c Config) WithDefaults() Config {
	return Config{
		MaxWait: cmp.Or(c.MaxWait, 30*time.Second),
		MaxHold: cmp.Or(c.MaxHold, time.Minute),
		Queue:   cmp.Or(c.Queue, 1000),
	}
}

// Hold returns d, the wait before a retry for which the server has asked, bounded
// by MaxHold. Without pacing, the default bounds it.
func (c Config) Hold(d time.Duration) time.Duration {
	return min(d, Config{MaxHold: max(c.MaxHold, 0)}.WithDefaults().MaxHold)
}

// A Queue holds the requests to one server back until its pacing.Pacer lets them
// go: first come, first served. It is safe for concurrent use. It starts no
// goroutine, and its timer runs only while a request waits.
type Queue struct {
	cfg    Config
	chance func() float64
	epoch  time.Time

	mu    sync.Mutex // guards what follows
	pacer pacing.Pacer
	queue list.List // of *waiter
	timer waitq.Timer
}

// A waiter is a request in a Queue.
type waiter struct {
	until  time.Duration // it is too late to be sent at this instant
	reason weir.Reason   // TooLate if that is the deadline of its context
	call   waitq.Call[verdict]
	place  *list.Element // nil once it has left
}

// A verdict is the number of a request that may be sent, or the error of one that
// may not.
type verdict struct {
	number uint64
	err    error
}

// NewQueue returns a Queue that holds nothing back. Chance returns values evenly
// distributed in [0, 1).
func NewQueue(cfg Config, chance func() float64) *Queue {
	cfg = cfg.WithDefaults()
	q := &Queue{cfg: cfg, chance: chance, epoch: time.Now(), pacer: pacing.Pacer{MaxHold: cfg.MaxHold}}
	q.timer.Wake = q.wake
	return q
}

func (q *Queue) now() time.Duration { return time.Since(q.epoch) }

// Wait waits until a request may be sent, and returns its number. The error is a
// *weir.Rejection or, if ctx ended first, the context's own: the rejection is
// TooLate if the deadline of ctx comes before the end of the wait, QueueFull if
// too many requests wait, and otherwise OverRate or Throttled, because the wait
// would be or was longer than MaxWait. Waited is negative if the request was sent
// or rejected at once.
func (q *Queue) Wait(ctx context.Context) (number uint64, waited time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, -1, err
	}
	began := q.now()
	number, w, err := q.enter(ctx, began)
	if w == nil {
		return number, -1, err
	}
	number, err = q.await(ctx, w)
	return number, q.now() - began, err
}

// enter sends a request, rejects it, or queues it.
func (q *Queue) enter(ctx context.Context, now time.Duration) (uint64, *waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queue.Len() == 0 && q.pacer.Next(now) <= now {
		return q.pacer.Send(now), nil, nil
	}
	until, reason := waitq.Within(ctx, q.epoch, now, max(q.cfg.MaxWait, 0))
	if err := q.tooLateLocked(now, until, reason); err != nil {
		return 0, nil, err
	}
	if q.queue.Len() >= q.cfg.Queue {
		return 0, nil, weir.Reject(weir.QueueFull, retrystep.Up(q.pacer.Next(now)-now))
	}
	w := &waiter{until: until, reason: reason, call: waitq.NewCall[verdict]()}
	w.place = q.queue.PushBack(w)
	q.serveLocked(now)
	return 0, w, nil
}

// tooLateLocked returns the rejection of a request that cannot be sent in time,
// nil if it can.
func (q *Queue) tooLateLocked(now, until time.Duration, reason weir.Reason) error {
	o := q.pacer.Opens(now)
	if o.At <= now || o.At < until {
		return nil
	}
	if reason == weir.TooLate {
		o.Reason = weir.TooLate
	}
	return weir.Reject(o.Reason, retrystep.Up(o.At-now))
}

// await waits until w is answered, MaxWait is over or ctx ends.
func (q *Queue) await(ctx context.Context, w *waiter) (uint64, error) {
	leave := func(expired bool) bool { return q.leave(w, expired) }
	v, err := w.call.Await(ctx, max(q.cfg.MaxWait, 0), leave, q.undo)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			q.undo(v)
		}
		return 0, ctx.Err()
	case err != nil:
		q.mu.Lock()
		defer q.mu.Unlock()
		now := q.now()
		return 0, weir.Reject(q.pacer.Reason(), retrystep.Up(q.pacer.Next(now)-now))
	}
	return v.number, v.err
}

// leave takes a request out of the queue, and reports whether it was there. If its time
// has expired, leave first answers the requests that may be sent.
func (q *Queue) leave(w *waiter, expired bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if expired {
		q.serveLocked(q.now())
	}
	if w.place == nil {
		return false
	}
	q.removeLocked(w)
	q.serveLocked(q.now())
	return true
}

func (q *Queue) removeLocked(w *waiter) {
	q.queue.Remove(w.place)
	w.place = nil
}

func (q *Queue) undo(v verdict) {
	if v.err == nil {
		q.Cancel(v.number)
	}
}

// Cancel takes back a request that was not sent after all.
func (q *Queue) Cancel(number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.pacer.Cancel(now, number)
	q.serveLocked(now)
}

// Renew reports whether a request that was let go some time ago may still be sent.
// If not, it is cancelled and must Wait again.
func (q *Queue) Renew(number *uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	if q.pacer.Opens(now).At <= now {
		return true
	}
	q.pacer.Cancel(now, *number) // this request may be the one that used up the quota
	if q.pacer.Opens(now).At <= now {
		*number = q.pacer.Send(now)
		return true
	}
	q.serveLocked(now)
	return false
}

// Answer counts an answer of the server, and rejects the requests that would
// now wait too long.
func (q *Queue) Answer(a *pacing.Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.pacer.Answer(now, a, q.chance())
	for e := q.queue.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if err := q.tooLateLocked(now, w.until, w.reason); err != nil {
			q.removeLocked(w)
			w.call.Answer(verdict{err: err})
		}
	}
	q.serveLocked(now)
}

// serveLocked lets all requests go that may, and sets the timer for the next.
func (q *Queue) serveLocked(now time.Duration) {
	for q.queue.Len() > 0 && q.pacer.Next(now) <= now {
		w := q.queue.Front().Value.(*waiter)
		q.removeLocked(w)
		w.call.Answer(verdict{number: q.pacer.Send(now)})
	}
	if q.queue.Len() == 0 {
		q.timer.Stop()
	} else {
		q.timer.Arm(now, q.pacer.Next(now))
	}
}

func (q *Queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer.Fired()
	q.serveLocked(q.now())
}

// Idle reports whether a request would be sent at once.
func (q *Queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	return q.pacer.Next(now) <= now
}

// Waiting returns the number of requests that wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queue.Len()
}
