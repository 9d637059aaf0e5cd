package client

import (
	"context"
	"net/http"

	"github.com/weir-go/weir"
)

// Bounds of what is returned in the background.
const (
	maxReturns = 1 << 13
	maxSenders = 16
)

// returns are the requests that settle costs and return leases.
type returns struct {
	group                 // of goroutines, each with a request
	queue   chan struct{} // of capacity maxReturns; has an element per request
	senders chan struct{} // of capacity maxSenders; has an element per request in flight

	ctx context.Context // ends when nothing is returned any more
	end context.CancelFunc
}

// settle reports the true cost of granted tokens.
func (c *Client) settle(key, id string, n int) {
	if id != "" {
		c.giveBack(&call{method: http.MethodPost, key: key, path: target("rate", key, id) + cost(min(n, maxCost))})
	}
}

// giveBackLease returns a lease.
func (c *Client) giveBackLease(key, id string, o weir.Outcome) {
	c.giveBack(&call{method: http.MethodDelete, key: key, path: target("lease", key, id) + "?outcome=" + o.String()})
}

// giveBack has a call sent, unless too many are queued.
func (c *Client) giveBack(q *call) {
	r := &c.returns
	select {
	case r.queue <- struct{}{}:
		if r.start(func() { c.sendReturn(q) }) {
			return
		}
		leave(r.queue)
	default:
	}
	c.counts.dropped.Add(1)
}

// sendReturn sends a call unless the server is away, even while the Client is being
// closed.
func (c *Client) sendReturn(q *call) {
	r := &c.returns
	defer leave(r.queue)
	err := errAway
	if enter(r.ctx, r.senders) {
		defer leave(r.senders)
		ctx, cancel := context.WithTimeout(r.ctx, c.cfg.Timeout)
		defer cancel()
		if !c.circuit.Open() {
			_, err = c.exchange(ctx, q)
		}
	}
	if err != nil {
		c.counts.dropped.Add(1)
	}
}
