// Package inflight limits how much work is in flight at once: N in Little's
// law N = X·R. The limit is fixed, or finds itself by watching how the work
// goes (package limit). In front of it stands a bounded queue, first in,
// first out (package gate).
//
//	lim, err := inflight.New(inflight.Config{})
//	...
//	err = weir.Do(ctx, lim, func(ctx context.Context) error { ... })
//
// # Cancellation
//
// Acquire returns when its context ends; whoever gives up leaves the queue
// and holds nothing. A permit, however, is held until Release, whatever became
// of the caller: abandoned work still loads the resource. Release it when the
// work has ended, or when it must have ended.
package inflight

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gate"
	"github.com/weir-go/weir/limit"
)

// Bounds of the queue where Config leaves them open.
const (
	DefaultQueue   = 100
	DefaultMaxWait = time.Second
)

// Config sets up a Limiter. The zero value finds the limit by itself.
type Config struct {
	// Algorithm sets the limit; the Limiter owns it from then on. If nil,
	// limit.AIMD with its defaults.
	Algorithm limit.Algorithm
	// Queue bounds the number of waiters. If zero, DefaultQueue; if negative,
	// nobody waits.
	Queue int
	// MaxWait bounds the time in the queue. If zero, DefaultMaxWait; if
	// negative, a waiter waits as long as its context allows.
	MaxWait time.Duration
	// Trace, if not nil, is told of every change of the limit, by the
	// goroutine that caused it, outside the Limiter's lock: it must be safe
	// for concurrent use, and events may overtake each other.
	Trace func(Event)
}

func (c Config) gate() gate.Config {
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	if c.MaxWait == 0 {
		c.MaxWait = DefaultMaxWait
	}
	return gate.Config{Queue: c.Queue, MaxWait: c.MaxWait}
}

// An Event is a change of the limit.
type Event struct {
	At         time.Duration // since the Limiter was made
	Was, Limit int           // units, before and after
	Cause      limit.Cause
	Inflight   int          // units in flight after the change
	Waiting    int          // requests in the queue after the change
	Sample     limit.Sample // the work that caused it; if it was Set, only End
}

// Rejections carry no data of their own, so they are shared: to refuse
// allocates nothing.
var (
	errOverLimit = &weir.Rejection{Reason: weir.OverLimit}
	errQueueFull = &weir.Rejection{Reason: weir.QueueFull}
	errOverdue   = &weir.Rejection{Reason: weir.Overdue}
)

func rejection(why weir.Reason) error {
	switch why {
	case weir.QueueFull:
		return errQueueFull
	case weir.Overdue:
		return errOverdue
	default:
		return errOverLimit
	}
}

// A Limiter admits work up to its limit. It is a weir.Limiter, safe for
// concurrent use, and starts no goroutine of its own while nobody waits.
type Limiter struct {
	epoch time.Time
	trace func(Event)

	mu    sync.Mutex // guards what follows
	gate  *gate.Gate[*waiter]
	timer *time.Timer   // runs expire; nil until somebody waits
	armed bool          // the timer is running
	alarm time.Duration // and will fire at this instant
}

// New returns a Limiter. No Config of today is refused; the error is kept for
// those to come.
func New(cfg Config) (*Limiter, error) {
	alg := cfg.Algorithm
	if alg == nil {
		var err error
		if alg, err = limit.NewAIMD(limit.AIMDConfig{}); err != nil {
			return nil, err
		}
	}
	return &Limiter{
		epoch: time.Now(),
		trace: cfg.Trace,
		gate:  gate.New[*waiter](alg, cfg.gate()),
	}, nil
}

// TryAcquire returns a permit for n units if they are free and nobody waits;
// it never waits itself. It panics if n < 0.
func (l *Limiter) TryAcquire(n int) (weir.Permit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if verdict, _ := l.gate.Enter(gate.Request{N: n, NoWait: true}); verdict != gate.Admit {
		return weir.Permit{}, false
	}
	return l.permitLocked(l.now(), n), true
}

// Acquire returns a permit for n units, after a wait in the queue if need be.
// The error is a *weir.Rejection (OverLimit, QueueFull or Overdue) or, if ctx
// ended first, the context's own. It panics if n < 0.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := ctx.Err(); err != nil {
		return weir.Permit{}, err
	}
	p, w, err := l.enter(n)
	if w == nil {
		return p, err
	}
	return l.wait(ctx, w)
}

func (l *Limiter) permitLocked(now time.Duration, n int) weir.Permit {
	return weir.NewPermit((*owner)(l), weir.Grant{N: n, At: now, Inflight: l.gate.Inflight()})
}

func (l *Limiter) now() time.Duration { return time.Since(l.epoch) }

// owner keeps Release and Use, which a Permit calls, out of Limiter's methods.
type owner Limiter

// Use changes the number of units that a permit holds.
func (o *owner) Use(g weir.Grant, n int) int {
	l := (*Limiter)(o)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate.Adjust(gate.Request{N: g.N}, n)
	l.serveLocked(l.now())
	return n
}

// Release takes a permit's units back and learns from how the work went.
func (o *owner) Release(g weir.Grant, outcome weir.Outcome) {
	l := (*Limiter)(o)
	if e := l.leave(g, outcome); e != nil {
		l.trace(*e)
	}
}

func (l *Limiter) leave(g weir.Grant, outcome weir.Outcome) *Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.gate.Limit()
	s := limit.Sample{Start: g.At, End: l.now(), Inflight: g.Inflight, Outcome: outcome}
	cause := l.gate.Leave(s, gate.Request{N: g.N})
	l.serveLocked(s.End)
	return l.eventLocked(was, cause, s)
}

// SetLimit fixes the limit at n units; a negative n is taken as zero, which
// lets nobody in. Work in flight beyond a lower limit finishes.
func (l *Limiter) SetLimit(n int) { l.SetAlgorithm(limit.Fixed(n)) }

// SetAlgorithm puts the Limiter under another algorithm, which it owns from
// then on.
func (l *Limiter) SetAlgorithm(alg limit.Algorithm) {
	if e := l.setAlgorithm(alg); e != nil {
		l.trace(*e)
	}
}

func (l *Limiter) setAlgorithm(alg limit.Algorithm) *Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.gate.Limit()
	now := l.now()
	l.gate.SetAlgorithm(alg)
	l.serveLocked(now)
	return l.eventLocked(was, limit.Set, limit.Sample{End: now})
}

// eventLocked notes what happened to the limit, for the caller to tell outside
// the lock; nil if nothing did, or if nobody wants to know.
func (l *Limiter) eventLocked(was int, cause limit.Cause, s limit.Sample) *Event {
	if l.trace == nil || cause == limit.Kept {
		return nil
	}
	st := l.gate.Stats()
	return &Event{At: s.End, Was: was, Limit: st.Limit, Cause: cause,
		Inflight: st.Inflight, Waiting: st.Waiting, Sample: s}
}

// SetQueue changes the bounds of the queue, with Config's meaning of zero and
// less. Those who wait keep their places; the new maxWait counts for them too.
func (l *Limiter) SetQueue(queue int, maxWait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate.Configure(Config{Queue: queue, MaxWait: maxWait}.gate())
	l.serveLocked(l.now())
}

// Queue returns the bounds of the queue, with Config's meaning of less than
// zero.
func (l *Limiter) Queue() (queue int, maxWait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.gate.Config()
	return c.Queue, c.MaxWait
}

// Stats returns the state and the counts since New.
func (l *Limiter) Stats() gate.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gate.Stats()
}
