package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/waitq"
)

// await sends a request that may wait at the server, for as long as wait. If the
// caller leaves first, undo gives back what the server grants all the same. If the
// caller's context was cancelled, so is the request; a deadline is known to the
// server.
func await[T any](c *Client, ctx context.Context, key string, wait time.Duration, ask func(context.Context) (T, error), undo func(T)) (got T, err error) {
	if err := c.near(key); err != nil {
		return got, err
	}
	if c.counts.waiting.Add(1) > int64(c.cfg.Queue) {
		c.counts.waiting.Add(-1)
		return got, weir.Reject(weir.QueueFull, 0)
	}
	defer c.counts.waiting.Add(-1)
	asking, cancel := context.WithCancelCause(c.ctx)
	asking, stop := context.WithTimeout(asking, wait+c.cfg.Timeout)
	type result struct {
		got T
		err error
	}
	call := waitq.NewCall[result]()
	var over atomic.Bool // the caller has left, or the call is answered
	if !c.start(func() {
		defer stop()
		defer cancel(nil)
		got, err := ask(asking)
		if over.CompareAndSwap(false, true) {
			call.Answer(result{got, err})
		} else if err == nil {
			undo(got)
		}
	}) {
		stop()
		cancel(nil)
		return got, errClosed
	}
	r, err := call.Await(ctx, 0, func(bool) bool { return over.CompareAndSwap(false, true) }, func(r result) {
		if r.err == nil {
			undo(r.got)
		}
	})
	if err == context.Canceled {
		cancel(errLeft)
	}
	if err != nil {
		return got, err
	}
	return r.got, r.err
}
