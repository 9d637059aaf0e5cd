package flight

import "context"

const MaxSpares = maxSpares

// Listed returns how many runs can be joined.
func Listed[K comparable, V any](g *Group[K, V]) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.runs)
}

// Spares returns how many runs wait to be used again.
func Spares[K comparable, V any](g *Group[K, V]) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for r := g.spare; r != nil; r = r.next {
		n++
	}
	return n
}

// A Result holds the results of Do.
type Result[V any] struct {
	Val       V
	Err       error
	Coalesced bool
}

// Begin calls Do on another goroutine. When Begin returns, the call has begun or
// joined its run, or waits for an abandoned one.
func Begin[K comparable, V any](g *Group[K, V], ctx context.Context, key K, fn func(context.Context) (V, error)) <-chan Result[V] {
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
