package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/waitq"
)

// Take takes n tokens of a key if they are available, without a wait. With n = 0 it
// takes none, and reports whether one is available.
//
// If the server does not answer in time, Config.Away decides. The error is the error
// of ctx if that ended first, a *StatusError if the server does not accept the
// request, or a *weir.Rejection, weir.Closed, if the Client is closed or the server
// is shutting down. An invalid key, or n above math.MaxInt32, is also an error.
// ResetAfter is not known, and zero. Take panics if n < 0.
func (c *Client) Take(ctx context.Context, key string, n int) (weir.Decision, error) {
	key, err := clean(key, n)
	if err != nil {
		return weir.Decision{}, err
	}
	t, err := c.take(ctx, key, n)
	return t.Decision, err
}

// A taking is a decision about tokens, and where they come from.
type taking struct {
	weir.Decision
	from source
	id   string // of a grant of the server
}

type source uint8

const (
	fromRule source = iota // Config.Away, without a count
	fromServer
	fromLeaf
	fromLocal
)

// take decides about n tokens of a clean key.
func (c *Client) take(ctx context.Context, key string, n int) (taking, error) {
	if c.leaf != nil {
		if d, decided, err := c.takeByLeaf(ctx, key, n); decided || err != nil {
			return taking{Decision: d, from: fromLeaf}, err
		}
	}
	a, err := c.ask(ctx, newAsk(key, n))
	switch {
	case away(err):
		d, from := c.takeLocally(key, n)
		return taking{Decision: d, from: from}, nil
	case err != nil:
		return taking{}, err
	}
	return taking{a.decision(), fromServer, a.ID}, nil
}

// AllowAtMost takes as many of n tokens of a key as are available, without a wait, and returns
// their number: a batch can be done in part, and the rest later. It returns the errors of Take,
// and panics if n < 0.
func (c *Client) AllowAtMost(ctx context.Context, key string, n int) (int, error) {
	key, err := clean(key, n)
	if err != nil || n == 0 {
		return 0, err
	}
	if c.leaf != nil {
		got, err := atMost(n, func(n int) (weir.Decision, error) {
			d, decided, err := c.takeByLeaf(ctx, key, n)
			if err == nil && !decided {
				err = errUndecided
			}
			return d, err
		})
		if err != errUndecided {
			return got, err
		}
	}
	a, err := c.ask(ctx, &ask{Key: key, N: n, AtMost: true, call: waitq.NewCall[result]()})
	switch {
	case away(err):
		return atMost(n, func(n int) (weir.Decision, error) {
			d, _ := c.takeLocally(key, n)
			return d, nil
		})
	case err != nil || !a.OK:
		return 0, err
	}
	return min(max(a.Granted, 0), n), nil
}

// errUndecided says that the leaf does not decide.
var errUndecided = errors.New("client: the server has to decide")

// maxTries bounds the tries of atMost. More than two are needed only if other calls take tokens
// meanwhile.
const maxTries = 5

// atMost takes as many of n tokens as there are by a function that takes all or none.
func atMost(n int, take func(n int) (weir.Decision, error)) (int, error) {
	for range maxTries {
		d, err := take(n)
		switch {
		case err != nil:
			return 0, err
		case d.OK:
			return n, nil
		case d.Remaining < 1:
			return 0, nil
		}
		n = min(n, d.Remaining)
	}
	return 0, nil
}

// ask sends an ask for tokens, without a wait for them. If the server does not answer in
// time, the error is one for which away is true.
func (c *Client) ask(ctx context.Context, a *ask) (answer, error) {
	if err := c.reachable(ctx, a.Key); err != nil {
		return answer{}, err
	}
	if err := c.enqueue(a); err != nil {
		return answer{}, err
	}
	return c.await(ctx, a, c.cfg.Timeout)
}

// A limiter is the weir.Limiter of a key.
type limiter struct {
	c       *Client
	key     string
	acquire func(c *Client, ctx context.Context, key string, n int) (weir.Permit, error)
}

func (l limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	key, err := clean(l.key, n)
	switch {
	case err != nil:
		return weir.Permit{}, err
	case n == 0:
		return weir.Permit{}, ctx.Err()
	}
	return l.acquire(l.c, ctx, key, n)
}

// For returns the rate limiter of a key. Its Acquire takes n tokens. If they are not
// available, it waits for them at the server, first come, first served among the
// callers of all clients, until Config.MaxWait or the deadline of its context.
//
// Use reports the true cost if it differs from n. The Permit's Release sends the
// last one to the server; it must come within an hour of Acquire. If the context is
// cancelled at the same instant as the tokens are granted, they can be lost.
//
// Acquire returns the errors of a weir.Limiter, or a *StatusError. If the server
// does not answer in time, Config.Away decides, also about a wait. Acquire panics if
// n < 0; for n = 0 it does nothing.
func (c *Client) For(key string) weir.Limiter { return limiter{c, key, (*Client).acquireTokens} }

func (c *Client) acquireTokens(ctx context.Context, key string, n int) (weir.Permit, error) {
	asked := time.Now()
	if c.leaf != nil {
		if p, decided, err := c.acquireByLeaf(ctx, key, n); decided || err != nil {
			return p.Move(), err
		}
	}
	a, err := c.ask(ctx, newAsk(key, n))
	if err == nil && !a.OK {
		a, err = c.waitForTokens(ctx, key, n, asked, a.rejection())
	}
	switch {
	case away(err):
		return c.acquireLocally(ctx, key, n, asked)
	case err != nil:
		return weir.Permit{}, err
	}
	return c.serverPermit(key, a.ID, n), nil
}

// serverPermit returns the Permit for tokens that the server has granted.
func (c *Client) serverPermit(key, id string, n int) weir.Permit {
	g := &grant{c: c, key: key, id: id, n: n}
	g.owner = g
	return weir.OwnedPermit(&g.owner, weir.Grant{N: n})
}

// waitForTokens waits at the server for tokens that were denied; asked is when the
// call began.
func (c *Client) waitForTokens(ctx context.Context, key string, n int, asked time.Time, denied *weir.Rejection) (answer, error) {
	wait, own := c.patience(ctx, asked)
	switch late := denied.RetryAfter-time.Since(asked) > wait; {
	case denied.Reason != weir.OverRate, late && own:
		return answer{}, denied
	case late:
		return answer{}, &weir.Rejection{Reason: weir.TooLate, RetryAfter: denied.RetryAfter}
	}
	a, err := c.wait(ctx, newAsk(key, n), wait, &call{
		method: http.MethodPost, key: key, path: target("rate", key) + waiting(n, wait), check: isGrant,
	})
	return a, impatient(err, own, weir.OverRate)
}

// wait sends the request of an ask, which waits at the server for at most wait. It
// cancels the request if the caller's context is cancelled. The server knows the
// caller's deadline.
func (c *Client) wait(ctx context.Context, a *ask, wait time.Duration, q *call) (answer, error) {
	if err := c.reachable(ctx, a.Key); err != nil {
		return answer{}, err
	}
	defer c.counts.waiting.Add(-1)
	if c.counts.waiting.Add(1) > int64(c.cfg.Queue) {
		return answer{}, weir.Reject(weir.QueueFull, 0)
	}
	asking, stop := context.WithTimeout(c.ctx, wait+c.cfg.Timeout)
	if !c.work.start(func() {
		defer stop()
		r, err := c.exchange(asking, q)
		c.answer(a, result{r.answer, err})
	}) {
		stop()
		return answer{}, errClosed
	}
	got, err := c.await(ctx, a, 0)
	if err == context.Canceled {
		stop()
	}
	return got, err
}

// patience returns how long a call that began at the instant came can still wait,
// and whether MaxWait bounds it rather than the deadline of its context.
func (c *Client) patience(ctx context.Context, came time.Time) (wait time.Duration, own bool) {
	wait = max(c.cfg.MaxWait-time.Since(came), 0)
	if at, ok := ctx.Deadline(); ok && time.Until(at) < wait {
		return max(time.Until(at), 0), false
	}
	return wait, true
}

// impatient replaces TooLate by why if MaxWait was the bound, because the caller has
// set no deadline then.
func impatient(err error, own bool, why weir.Reason) error {
	if r, ok := err.(*weir.Rejection); ok && own && r.Reason == weir.TooLate {
		return &weir.Rejection{Reason: why, RetryAfter: r.RetryAfter}
	}
	return err
}

// A grant owns the Permit for tokens that the server has granted.
type grant struct {
	owner weir.Owner // itself
	c     *Client
	key   string
	id    string
	n     int
}

// Use does not settle the cost: an id can be settled only once, at Release.
func (g *grant) Use(_ weir.Grant, n int) int { return n }

func (g *grant) Release(held weir.Grant, _ weir.Outcome) {
	if held.N != g.n {
		g.c.settle(g.key, g.id, held.N)
	}
}
