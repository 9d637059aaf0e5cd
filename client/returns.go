package client

import (
	"context"
	"net/http"
	"sync"

	"github.com/weir-go/weir"
)

// Bounds of what is returned in the background.
const (
	maxReturns = 1 << 13
	maxSenders = 16
)

// returns are the requests that settle costs and return leases.
type returns struct {
	mu      sync.Mutex // guards what follows
	queue   []*call
	senders int
	over    bool // nothing is sent any more
}

// settle reports the true cost of granted tokens.
func (c *Client) settle(key, id string, n int) {
	if id != "" {
		c.giveBack(&call{method: http.MethodPost, path: []string{"rate", segment(key), segment(id)}, query: cost(min(n, maxCost))})
	}
}

// unlease returns a lease.
func (c *Client) unlease(key, id string, o weir.Outcome) {
	c.giveBack(&call{method: http.MethodDelete, path: []string{"lease", segment(key), segment(id)}, query: "outcome=" + o.String()})
}

// giveBack has a call sent, unless too many are queued.
func (c *Client) giveBack(q *call) {
	r := &c.returns
	r.mu.Lock()
	if r.over || len(r.queue) >= maxReturns {
		r.mu.Unlock()
		c.counts.dropped.Add(1)
		return
	}
	r.queue = append(r.queue, q)
	more := r.senders < maxSenders
	if more {
		r.senders++
	}
	r.mu.Unlock()
	if more && !c.start(func() { c.sendReturns(func() bool { return c.ctx.Err() == nil }) }) {
		r.mu.Lock()
		r.senders--
		r.mu.Unlock()
	}
}

// sendReturns sends queued calls while may returns true.
func (c *Client) sendReturns(may func() bool) {
	r := &c.returns
	for {
		r.mu.Lock()
		if len(r.queue) == 0 || !may() {
			r.senders--
			r.mu.Unlock()
			return
		}
		q := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		r.mu.Unlock()
		c.sendReturn(q)
	}
}

// sendReturn sends a call unless the server is away, even while the Client is being
// closed.
func (c *Client) sendReturn(q *call) {
	ctx, cancel := context.WithTimeout(c.returning, c.cfg.Timeout)
	defer cancel()
	if c.circuit.open.Load() || c.exchange(ctx, q) != nil {
		c.counts.dropped.Add(1)
		return
	}
	c.counts.returned.Add(1)
}

// flush sends the queued calls for as long as Close allows, and drops the rest.
func (c *Client) flush() {
	r := &c.returns
	var senders sync.WaitGroup
	r.mu.Lock()
	for range maxSenders {
		r.senders++
		senders.Go(func() { c.sendReturns(func() bool { return c.returning.Err() == nil }) })
	}
	r.mu.Unlock()
	senders.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	c.counts.dropped.Add(uint64(len(r.queue)))
	r.queue, r.over = nil, true
}
