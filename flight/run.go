package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// A run is one execution of a function. The Group's mutex guards all but cancel,
// val and err.
type run[V any] struct {
	// done is closed when the run has ended. The first caller that needs it
	// makes it; it does not change after that.
	done chan struct{}

	waiters   int  // callers that have not left, including the first
	listed    bool // in Group.runs, so that others can join
	abandoned bool // cancelled: the last waiter has left
	ended     bool
	next      *run[V] // in Group.spare

	// cancel is written by the first caller before it waits, and called by the
	// last caller to leave, which is the first one or leaves after it. It is
	// nil if the first caller stays.
	cancel context.CancelFunc

	// val and err are written before ended is set and done is closed, and read
	// after. They are not read if there is no done.
	val V
	err error
}

// maxSpares bounds the runs that a Group keeps for use again.
const maxSpares = 16

// A role is the relation of a call to the run that it found.
type role int

const (
	first  role = iota // it begins the run, and waits for it
	joiner             // it waits for the run
	heir               // it waits for the end of an abandoned run
)

// stays reports whether a caller cannot leave before its run has ended. Then it
// may run the function itself.
func (g *Group[K, V]) stays(ctx context.Context) bool {
	return ctx.Done() == nil && g.Timeout <= 0
}

// enter finds the run of key, or lists a new one. The mutex orders the calls
// that join, the calls that leave, and the end of the run. So if one call joins
// while the last other call leaves, either the joining call is counted first and
// the run is not abandoned, or the run is abandoned first and the joining call
// sees that.
func (g *Group[K, V]) enter(key K, stays bool) (*run[V], role) {
	itself := key == key // NaN is not
	g.mu.Lock()
	defer g.mu.Unlock() // the map panics if key has no hash
	if r := g.runs[key]; r != nil {
		if r.done == nil { // not ended either: it would not be listed
			r.done = make(chan struct{})
		}
		if r.abandoned {
			return r, heir
		}
		r.waiters++
		g.stats.Coalesced++
		return r, joiner
	}
	if g.runs == nil {
		g.runs = make(map[K]*run[V])
	}
	r := g.spare
	if r == nil {
		r = new(run[V])
	} else {
		g.spare, r.next = r.next, nil
		g.spares--
	}
	r.waiters, r.ended = 1, false
	if r.listed = itself; itself { // the map could not delete it otherwise
		g.runs[key] = r
	}
	if !stays {
		r.done = make(chan struct{})
	}
	g.stats.Runs++
	g.stats.Inflight++
	return r, first
}

// wait does the rest of Do for a call with a role in r.
//
// No end is missed: done is closed once, after the result was written, and stays
// closed. If the ctx of a first caller or a joiner ends, the caller checks under
// the mutex whether the run has ended meanwhile; if not, it leaves, and is no
// longer counted. An heir is not counted: it cannot keep a cancelled run alive.
func (g *Group[K, V]) wait(ctx context.Context, key K, fn func(context.Context) (V, error), r *run[V], as role) (v V, coalesced bool, err error) {
	for {
		if as == first {
			if g.stays(ctx) {
				v, err = g.execute(ctx, key, fn, r)
				return v, false, err
			}
			g.start(ctx, key, fn, r)
		}
		if left := ctx.Done(); left == nil {
			<-r.done // cheaper than select
		} else {
			select {
			case <-r.done:
			case <-left:
				if !g.leave(r, as) {
					return v, false, ctx.Err()
				}
			}
		}
		if as != heir {
			return r.val, as == joiner, r.err
		}
		if r.err == nil {
			g.mu.Lock()
			g.stats.Coalesced++
			g.mu.Unlock()
			return r.val, true, nil
		}
		// The run failed, probably because it was cancelled.
		if err = ctx.Err(); err != nil {
			return v, false, err
		}
		r, as = g.enter(key, g.stays(ctx))
	}
}

// start runs fn on a new goroutine, with a new context.
func (g *Group[K, V]) start(ctx context.Context, key K, fn func(context.Context) (V, error), r *run[V]) {
	ctx = context.WithoutCancel(ctx)
	if g.Timeout > 0 {
		ctx, r.cancel = context.WithTimeout(ctx, g.Timeout)
	} else {
		ctx, r.cancel = context.WithCancel(ctx)
	}
	go func() {
		defer r.cancel()
		_, _ = g.execute(ctx, key, fn, r)
	}()
}

// execute runs fn and ends r, however fn ends. If that is by runtime.Goexit, the
// goroutine goes on to end after r has.
func (g *Group[K, V]) execute(ctx context.Context, key K, fn func(context.Context) (V, error), r *run[V]) (v V, err error) {
	returned, panicked := false, false
	defer func() {
		if !returned {
			err = ErrGoexit
			if p := recover(); p != nil {
				panicked, err = true, &PanicError{Value: p, Stack: debug.Stack()}
			}
		}
		g.end(key, r, v, err, panicked)
	}()
	v, err = fn(ctx)
	returned = true
	return v, err
}

// end publishes the result and removes r from the list, so that later callers
// begin a new run.
func (g *Group[K, V]) end(key K, r *run[V], v V, err error, panicked bool) {
	g.mu.Lock()
	if r.listed { // otherwise the entry, if any, is of another run
		r.listed = false
		delete(g.runs, key)
	}
	r.ended = true
	g.stats.Inflight--
	if panicked {
		g.stats.Panics++
	}
	done := r.done
	if done != nil {
		r.val, r.err = v, err
	} else if g.spares < maxSpares {
		// No other call has found r, and none can any more. The caller that ran
		// it does not read it again.
		r.next, g.spare = g.spare, r
		g.spares++
	}
	g.mu.Unlock()
	if done != nil {
		close(done)
	}
}

// leave removes a caller from r. If r has ended, it reports that instead, and
// the result is available. The last caller to leave cancels r.
func (g *Group[K, V]) leave(r *run[V], as role) (ended bool) {
	g.mu.Lock()
	if r.ended || as == heir {
		defer g.mu.Unlock()
		return r.ended
	}
	r.waiters--
	last := r.waiters == 0
	if last {
		r.abandoned = true
		g.stats.Abandoned++
	}
	g.mu.Unlock()
	if last {
		r.cancel() // r may have ended just now, which makes no difference
	}
	return false
}

// ErrGoexit is the error of Do if fn called runtime.Goexit, for example by
// FailNow of a test.
var ErrGoexit = errors.New("flight: the function called runtime.Goexit")

// A PanicError is the error of Do if fn panicked. All callers share it.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of the goroutine that panicked, from debug.Stack; Error does not contain it
}

// Error returns the text of the panic, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("flight: panic: %v", e.Value) }

// Unwrap returns the Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
