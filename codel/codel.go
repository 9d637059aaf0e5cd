// Package codel replaces github.com/bohde/codel: only the import changes. A
// Lock admits a fixed number of callers at a time and lets a fixed number
// wait; when they wait for longer than the target latency, it rejects some of
// them by the CoDel algorithm, so that the others are served in time.
//
//	lock := codel.New(codel.Options{MaxPending: 100, MaxOutstanding: 10, TargetLatency: 5 * time.Millisecond})
//
//	if err := lock.Acquire(ctx); err != nil {
//		return err // codel.Dropped, or the error of ctx
//	}
//	defer lock.Release()
//
// It is an inflight.Limiter with the discipline inflight.CoDel2012 and the
// interval of the original, 10 ms. Code that is new should use package
// inflight, which has more to offer: a limit that finds itself, fairness
// between tenants, statistics. docs/codel.md compares the three.
package codel

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// Dropped is the error of Acquire when the caller is rejected.
//
//lint:ignore ST1012 github.com/bohde/codel has this name.
var Dropped = errors.New("dropped")

const interval = 10 * time.Millisecond

// Options configure a Lock or a PLock. The zero Options admit no caller.
type Options struct {
	MaxPending     int           // callers that may wait; a negative number means any number for New, and panics in NewPriority
	MaxOutstanding int           // callers admitted at a time; if zero or less, none
	TargetLatency  time.Duration // acceptable time in the queue; if zero or less, none is
}

// A Lock admits callers in order of arrival. It is safe for concurrent use. The
// zero Lock drops every caller.
type Lock struct{ lock }

// New returns a Lock.
func New(opts Options) *Lock {
	l := &Lock{}
	if opts.MaxPending < 0 {
		opts.MaxPending = math.MaxInt
	}
	l.open(opts)
	return l
}

// Acquire admits the caller, or waits until it is admitted or rejected, or ctx
// ends. The error is Dropped or that of ctx; without an error, Release must
// follow. If a place is free, the caller is admitted even if ctx has ended.
func (l *Lock) Acquire(ctx context.Context) error { return l.acquire(ctx, 0) }

// A PLock admits callers by priority, and those of one priority in order of
// arrival. In a full queue a caller takes the place of one of lower priority,
// which is dropped. It is safe for concurrent use. The zero PLock drops every
// caller.
type PLock struct{ lock }

// NewPriority returns a PLock.
func NewPriority(opts Options) *PLock {
	if opts.MaxPending < 0 {
		panic("codel: MaxPending is negative")
	}
	l := &PLock{}
	l.open(opts)
	return l
}

// Acquire is Lock.Acquire for a caller of a priority; higher goes first.
// Priorities beyond the range of an int32 count as the last one in it.
func (l *PLock) Acquire(ctx context.Context, priority int) error {
	return l.acquire(ctx, weir.Priority(min(max(priority, math.MinInt32), math.MaxInt32)))
}

// A lock is the common part of Lock and PLock.
type lock struct {
	limiter *inflight.Limiter

	mu   sync.Mutex // guards held
	held []weir.Permit
}

func (l *lock) open(opts Options) {
	queue := opts.MaxPending
	if queue == 0 {
		queue = -1
	}
	limiter, err := inflight.New(inflight.Config{
		Algorithm: limit.Fixed(max(opts.MaxOutstanding, 1)), Queue: queue, MaxWait: -1,
		Discipline: inflight.CoDel2012, Target: max(opts.TargetLatency, 1), Interval: interval, WaitOnly: true,
	})
	if err != nil {
		panic("codel: " + err.Error()) // the Config has no other values
	}
	if opts.MaxOutstanding <= 0 {
		limiter.TryAcquire(context.Background(), 1) // and never release it, so that callers wait as in the original
	}
	l.limiter = limiter
}

func (l *lock) acquire(ctx context.Context, priority weir.Priority) error {
	if l.limiter == nil {
		return Dropped
	}
	p, ok := l.limiter.TryAcquire(ctx, 1)
	if !ok {
		if weir.ClassOf(ctx).Priority != priority {
			ctx = weir.WithClass(ctx, weir.Class{Priority: priority})
		}
		var err error
		if p, err = l.limiter.Acquire(ctx, 1); err != nil {
			if errors.Is(err, weir.ErrRejected) {
				return Dropped
			}
			return err
		}
	}
	l.mu.Lock()
	l.held = append(l.held, p.Move())
	l.mu.Unlock()
	return nil
}

// Release ends one Acquire. It panics if no caller is admitted.
func (l *lock) Release() {
	l.mu.Lock()
	last := len(l.held) - 1
	if last < 0 {
		l.mu.Unlock()
		panic("lock: bad release")
	}
	p := l.held[last].Move()
	l.held = l.held[:last]
	l.mu.Unlock()
	p.Release(weir.Success)
}
