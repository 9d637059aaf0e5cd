// Package flight does work once for all who ask for it at the same time. Calls
// with the same key share one run of a function, and each caller waits no
// longer than its own context allows.
//
//	var group flight.Group[string, *User]
//	u, coalesced, err := group.Do(ctx, id, func(ctx context.Context) (*User, error) {
//		return load(ctx, id)
//	})
//
// A run belongs to all who wait for it, not to the caller who happened to be
// first. It has a context of its own, with the values of the first caller's and
// nobody's deadline, which is cancelled when the last waiter has left. What was
// cancelled and is still at work stays alone: a caller who comes then waits for
// its end, and takes its value or begins anew, but never gets a cancellation
// that others asked for. A panic becomes an error of every waiter.
//
// # When not to use it
//
// Results are shared, so a V must not be changed by those who get it; nor may it
// be larger than 64 kB, which Go does not send on channels: share a pointer. Share what
// is read, not what is written: a caller may get what was read just before its
// own write (see Forget). Do not share what depends on who asks: its user, its
// priority and its trace are the first caller's. And a result is forgotten when
// its run ends: that is no cache.
package flight

import (
	"context"
	"sync"
	"time"
)

// A Group shares runs among its callers. The zero Group is ready to use. It is
// safe for concurrent use, and must not be copied after its first use.
//
// It holds nothing of a run that has ended, and no goroutine while no call is
// waiting and no run goes on. How many keys and callers there are at a time is
// for its callers to bound.
//
// Keys are equal if == says so. One that is not equal to itself (NaN) never
// has company. One that cannot be compared, within an interface, panics.
type Group[K comparable, V any] struct {
	// Timeout bounds each run: its context ends that long after its begin. If
	// zero or less, only the last waiter's leaving ends it. A run that does not
	// heed its context is waited for all the same. Whoever joins late shares
	// what is left of it. To be set before first use.
	Timeout time.Duration

	mu     sync.Mutex // guards what follows, and what run says it does
	runs   map[K]*run[V]
	spare  *run[V] // a list of runs that nobody else holds
	spares int     // its length, at most maxSpares
	stats  Stats
}

// A Result is what Do returns, as one value.
type Result[V any] struct {
	Val       V
	Err       error
	Coalesced bool // the run was begun by another caller
}

// Stats are the counts since the Group's first use.
type Stats struct {
	Runs      uint64 // runs begun
	Coalesced uint64 // calls that joined a run, or took the value of an abandoned one
	Left      uint64 // calls whose context ended before the run they had begun or joined
	Abandoned uint64 // runs cancelled because the last waiter had left
	Panics    uint64 // runs that ended in a panic, which nobody is told of if they were abandoned
	Inflight  int    // runs that have not ended, abandoned and forgotten ones too
}

// Do runs fn, or waits for the run that another caller of the same key has
// begun, and returns its result. It reports whether it was begun by another.
//
// The context of fn has the values of the first caller's ctx, but neither its
// deadline nor its cancellation. It ends when the last of those who wait has
// left, when Timeout is over, or after fn has returned. fn has to heed it: the
// next run of the key does not begin before this one has ended.
//
// The error is
//
//   - that of fn,
//   - ctx.Err() as soon as ctx ends before the run does: the caller leaves, and
//     the run goes on for the others. With a ctx that has ended before, nothing
//     is run, and nobody is joined,
//   - a *PanicError if fn panicked,
//   - ErrGoexit if fn called runtime.Goexit.
//
// A call that finds an abandoned run, cancelled but not yet at its end, waits
// for that within its own ctx. If it succeeds after all, the call returns its
// value; otherwise it begins or joins a new run.
//
// With a ctx that can never end (and no Timeout) fn may run on the caller's own
// goroutine, with the caller's ctx; if it calls runtime.Goexit then, the
// caller's goroutine ends. That is the cheapest call. Otherwise fn has a
// goroutine of its own.
//
// fn must not call Do with the same key: it would wait for itself.
func (g *Group[K, V]) Do(ctx context.Context, key K, fn func(context.Context) (V, error)) (v V, coalesced bool, err error) {
	if err = ctx.Err(); err != nil {
		return v, false, err
	}
	r, as := g.enter(key, g.stays(ctx))
	return g.wait(ctx, key, fn, r, as)
}

// DoChan is Do without the wait: the result comes on the channel, which holds
// it until it is read, or for ever. It is not closed. When DoChan returns, the
// call has joined its run, begun it or, if there is an abandoned one, is waiting
// for that; then it goes on, and ends with ctx, whether or not anybody reads the
// channel. It takes a goroutine for as long.
func (g *Group[K, V]) DoChan(ctx context.Context, key K, fn func(context.Context) (V, error)) <-chan Result[V] {
	ch := make(chan Result[V], 1)
	if err := ctx.Err(); err != nil {
		ch <- Result[V]{Err: err}
		return ch
	}
	r, as := g.enter(key, g.stays(ctx))
	go func() {
		res := Result[V]{Err: ErrGoexit}
		defer func() { ch <- res }() // also if fn ends this goroutine
		res.Val, res.Coalesced, res.Err = g.wait(ctx, key, fn, r, as)
	}()
	return ch
}

// Forget makes the next call of key begin a new run, beside one that may be
// going on. Those who wait for that still get its result. It is for a writer who
// does not want those who ask after its write to get what was read before.
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
