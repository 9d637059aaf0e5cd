// Package flight shares one run of a function among all calls with the same key
// that come while it runs, so that a thousand requests for one user load the
// user once:
//
//	var group flight.Group[string, *User]
//	u, coalesced, err := group.Do(ctx, id, func(ctx context.Context) (*User, error) {
//		return load(ctx, id)
//	})
//
// Each caller waits no longer than its own context allows. The run has its own context,
// which is cancelled when the last waiting caller has left. A caller never gets a
// cancellation that another caller caused. A panic becomes an error of every waiting caller.
//
// # When not to use it
//
// Callers share the result and must not change it. Share reads, not writes: a
// caller may get a value that was read before its own write (see Forget). Do
// not share work that depends on the caller: its user, priority and trace come
// from the first caller. The result is forgotten when the run ends; package cache
// keeps it.
package flight

import (
	"context"
	"sync"
	"time"
)

// A Group shares runs among its callers. The zero Group is ready to use. It is
// safe for concurrent use, and must not be copied after its first use.
//
// A Group keeps nothing of a run that has ended, and has no goroutine while no
// call waits and no function runs. It does not bound the number of keys or
// callers.
//
// A key that is not equal to itself (NaN) is never shared. A key of an interface
// type panics if its content is not comparable.
type Group[K comparable, V any] struct {
	// Timeout bounds each run: its context ends that long after its start. If
	// zero or less, its context ends only when the last caller has left. A run
	// that ignores its context is waited for. A caller that joins late shares
	// the rest of the time. Set it before the first use.
	Timeout time.Duration

	mu     sync.Mutex // guards what follows, and what run says it does
	runs   map[K]*run[V]
	spare  *run[V] // a list of runs without other references
	spares int     // its length, at most maxSpares
	stats  Stats
}

// Stats are the counts since the Group's first use.
type Stats struct {
	Runs      uint64 // runs begun
	Coalesced uint64 // calls that joined a run, or took the value of an abandoned one
	Abandoned uint64 // runs cancelled because the last caller had left
	Panics    uint64 // runs that panicked; no caller learns of it if the run was abandoned
	Inflight  int    // runs that have not ended, abandoned and forgotten ones too
}

// Do runs fn, or waits for the run that another caller of the same key has
// begun, and returns its result. Coalesced reports whether another caller began
// it.
//
// The context of fn has the values of the first caller's ctx, but not its
// deadline and cancellation. It ends when the last waiting caller has left,
// when Timeout is over, or after fn has returned. fn must heed it: the next run
// of the key begins only when this one has ended.
//
// The error is
//
//   - the error of fn,
//   - ctx.Err(), as soon as ctx ends before the run: the caller leaves, and the
//     run continues for the others. If ctx has ended before the call, Do does
//     nothing else,
//   - a *PanicError if fn panicked,
//   - ErrGoexit if fn called runtime.Goexit.
//
// A call that finds an abandoned run, which is cancelled but still working,
// waits for its end, within ctx. If the run succeeds nevertheless, the call
// returns its value; otherwise it begins or joins a new run.
//
// If ctx can never end and there is no Timeout, fn may run on the caller's
// goroutine, with the caller's ctx; then runtime.Goexit in fn ends the caller's
// goroutine. That is the cheapest call. Otherwise fn runs on another goroutine.
//
// fn must not call Do with the same key: it would wait for itself.
func (g *Group[K, V]) Do(ctx context.Context, key K, fn func(context.Context) (V, error)) (v V, coalesced bool, err error) {
	if err = ctx.Err(); err != nil {
		return v, false, err
	}
	r, as := g.enter(key, g.stays(ctx))
	return g.wait(ctx, key, fn, r, as)
}

// Forget makes the next call of key begin a new run, even while another is in
// progress; the callers of that one still get its result. Call Forget after a
// write, so that later callers do not get a value that was read before.
func (g *Group[K, V]) Forget(key K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.runs[key]; r != nil {
		r.listed = false
		delete(g.runs, key)
	}
}

// Stats returns the counts.
func (g *Group[K, V]) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stats
}
