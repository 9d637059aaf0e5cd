package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir"
)

// errAway is the error of a request that is not sent because the server is away.
var errAway = errors.New("client: the server is away")

// reachable returns nil if the server can be asked, and otherwise why not. While the
// server is away, that is errAway, and reachable starts a probe with the key when one is
// due.
func (c *Client) reachable(ctx context.Context, key string) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.ctx.Err() != nil:
		return errClosed
	case !c.circuit.Open():
		return nil
	}
	if due, first := c.circuit.Probe(time.Now()); due {
		c.work.start(func() { c.probe(key, first) })
	}
	return errAway
}

// probe asks whether the server is back, with a batch, which no other server can
// answer. The first probe uses a new connection, because an open one may be dead;
// later ones use open connections, because making one may take longer than Timeout.
func (c *Client) probe(key string, first bool) {
	if first {
		c.http.CloseIdleConnections()
	}
	_, _ = c.decide([]*ask{{Key: key}})
	c.circuit.Probed(time.Now())
}

// rejectAway returns the rejection of a request that only the server can decide.
func (c *Client) rejectAway() error {
	return weir.Reject(weir.Closed, c.circuit.RetryAfter(time.Now()))
}

// takeLocally decides while the server is away.
func (c *Client) takeLocally(key string, n int) (weir.Decision, source) {
	c.counts.local.Add(1)
	if c.cfg.Away == Deny {
		return weir.Decision{RetryAfter: c.circuit.RetryAfter(time.Now())}, fromRule
	}
	if c.leaf != nil {
		d, _ := c.leaf.set.TakeAway(key, n, &c.leaf.policy)
		return d, fromLeaf
	}
	d := c.limits.Take(key, n)
	if n == 0 {
		d.OK = d.Remaining > 0
	}
	if !d.OK && d.RetryAfter == weir.Never { // here; the server may grant it
		d.RetryAfter = c.circuit.RetryAfter(time.Now())
	}
	return d, fromLocal
}

// acquireLocally decides while the server is away. A call that began at the instant
// came and has already waited at the server waits only for the rest of MaxWait.
func (c *Client) acquireLocally(ctx context.Context, key string, n int, came time.Time) (weir.Permit, error) {
	c.counts.local.Add(1)
	if c.cfg.Away == Deny {
		return weir.Permit{}, c.rejectAway()
	}
	if c.leaf != nil {
		return c.acquireByLeafAway(key, n)
	}
	wait, own := c.patience(ctx, came)
	within, stop := context.WithTimeout(ctx, max(wait, time.Millisecond))
	defer stop()
	p, err := c.limits.For(key).Acquire(within, n)
	switch r, _ := err.(*weir.Rejection); {
	case own && err == context.DeadlineExceeded: // the deadline is not the caller's
		err = weir.Reject(weir.OverRate, 0)
	case r != nil && r.Reason == weir.OverBurst: // here; the server may grant it
		err = c.rejectAway()
	}
	return p.Move(), impatient(err, own, weir.OverRate)
}

// study asks for the limit of one of the keys that the server has just answered, if
// the limit is not known.
func (c *Client) study(asks []*ask) {
	if c.cfg.Away != Local || c.leaf != nil {
		return
	}
	key, due := c.limits.Due(time.Now(), func(yield func(string) bool) {
		for _, a := range asks {
			if !yield(a.Key) {
				return
			}
		}
	})
	if due {
		c.work.start(func() { c.queryLimit(key) })
	}
}

// queryLimit asks for the limit of a key, and takes no token.
func (c *Client) queryLimit(key string) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Timeout)
	defer cancel()
	r, err := c.exchange(ctx, &call{method: http.MethodGet, key: key, path: target("rate", key) + cost(0)})
	c.limits.Learn(time.Now(), key, r.policy, err)
}
