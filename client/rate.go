package client

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir"
)

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
func (c *Client) For(key string) weir.Limiter { return tokens{c, key} }

type tokens struct {
	c   *Client
	key string
}

func (l tokens) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	check(n)
	if n == 0 {
		return weir.Permit{}, ctx.Err()
	}
	key, err := clean(l.key, n)
	if err != nil {
		return weir.Permit{}, err
	}
	asked := time.Now()
	a, err := l.c.ask(ctx, key, n)
	if err == nil && !a.OK {
		a, err = l.c.wait(ctx, key, n, asked, a.rejection())
	}
	switch {
	case away(err):
		return l.c.acquireLocally(ctx, key, n, asked)
	case err != nil:
		return weir.Permit{}, err
	}
	return l.c.permit(key, &a, n), nil
}

// wait waits at the server for tokens that were denied; asked is when the call began.
func (c *Client) wait(ctx context.Context, key string, n int, asked time.Time, denied *weir.Rejection) (answer, error) {
	wait, own := c.patience(ctx, asked)
	switch late := denied.RetryAfter-time.Since(asked) > wait; {
	case denied.Reason != weir.OverRate, late && own:
		return answer{}, denied
	case late:
		return answer{}, &weir.Rejection{Reason: weir.TooLate, RetryAfter: denied.RetryAfter}
	}
	return await(c, ctx, key, wait, func(ctx context.Context) (a answer, err error) {
		err = c.exchange(ctx, &call{
			method: http.MethodPost, path: []string{"rate", segment(key)}, query: waiting(n, wait),
			read: func(body []byte) (err error) {
				a, err = decodeGrant(body)
				return err
			},
		})
		return a, impatient(err, own, weir.OverRate)
	}, func(a answer) { c.settle(key, a.ID, 0) })
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

func (c *Client) permit(key string, a *answer, n int) weir.Permit {
	g := &grant{c: c, key: key, id: a.ID, n: n}
	g.owner = g
	return weir.NewPermit(&g.owner, weir.Grant{N: n})
}

// Use does not settle the cost: an id can be settled only once, at Release.
func (g *grant) Use(_ weir.Grant, n int) int { return n }

func (g *grant) Release(held weir.Grant, _ weir.Outcome) {
	if held.N != g.n {
		g.c.settle(g.key, g.id, held.N)
	}
}
