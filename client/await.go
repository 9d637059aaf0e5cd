package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
)

// await asks for something that may take the server as long as wait and an
// answer. If the caller leaves, undo gives back what comes all the same; if it was
// not its deadline, which the server knows, the request is cancelled.
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
	done := make(chan result, 1)
	var over atomic.Bool // the caller has left, or the result is in the channel
	if !c.start(func() {
		defer stop()
		defer cancel(nil)
		got, err := ask(asking)
		if over.CompareAndSwap(false, true) {
			done <- result{got, err}
		} else if err == nil {
			undo(got)
		}
	}) {
		stop()
		cancel(nil)
		return got, errClosed
	}
	// The result cannot be lost: whoever fails to leave finds it in the channel.
	select {
	case r := <-done:
		return r.got, r.err
	case <-ctx.Done():
	}
	if over.CompareAndSwap(false, true) {
		if ctx.Err() == context.Canceled {
			cancel(errLeft)
		}
		return got, ctx.Err()
	}
	r := <-done
	return r.got, r.err
}
