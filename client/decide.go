package client

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/keyed"
)

// Decide is Take with a Permit, which reports another cost, as that of For does. It makes the
// Client a keyed.Decider: a rate limit of each client, of all instances together, for rules of
// httplimit and grpclimit. The server does not tell the limit of each key, so clients are not told
// about it. A key, and an n, that Take does not accept is denied for ever: a client that chooses
// such a key gains nothing. Let a rule of the server match all keys: a *StatusError is a failure
// of the Client, so that the rule admits the request.
func (c *Client) Decide(ctx context.Context, key string, n int) (keyed.Verdict, error) {
	key, err := clean(key, n)
	if err != nil {
		return keyed.Verdict{Decision: weir.Decision{RetryAfter: weir.Never}}, nil
	}
	t, err := c.take(ctx, key, n)
	if err != nil || !t.OK || n == 0 {
		return keyed.Verdict{Decision: t.Decision}, err
	}
	return keyed.Verdict{Decision: t.Decision, Permit: c.permit(key, n, &t)}, nil
}

// permit returns the Permit for n tokens.
func (c *Client) permit(key string, n int, t *taking) weir.Permit {
	switch t.from {
	case fromServer:
		return c.serverPermit(key, t.id, n)
	case fromLeaf:
		return c.leafPermit(key, n)
	case fromLocal:
		g := &localGrant{c: c, key: key}
		g.owner = g
		return weir.OwnedPermit(&g.owner, weir.Grant{N: n})
	}
	return weir.Permit{}
}

// A localGrant owns the Permit for tokens of the Client's share.
type localGrant struct {
	owner weir.Owner // itself
	c     *Client
	key   string
}

func (g *localGrant) Use(held weir.Grant, n int) int { return g.c.limits.Settle(g.key, held.N, n) }
func (*localGrant) Release(weir.Grant, weir.Outcome) {}

// Leases returns the concurrency limits of all keys, as Lease has them but without a wait: a limit
// of each client, of all instances together, for rules of httplimit and grpclimit. Each request is a
// call of the server. A denial is an error, a *weir.Rejection. What Decide says of keys counts
// here, too.
func (c *Client) Leases() keyed.Decider[string] { return leaseDecider{c} }

type leaseDecider struct{ c *Client }

func (d leaseDecider) Decide(ctx context.Context, key string, n int) (keyed.Verdict, error) {
	key, err := clean(key, n)
	if err != nil {
		return keyed.Verdict{}, weir.Reject(weir.OverLimit, weir.Never)
	}
	if n == 0 {
		return keyed.Verdict{Decision: weir.Decision{OK: true}}, ctx.Err()
	}
	p, err := d.c.leaseUnits(ctx, key, n, 0)
	switch r, _ := err.(*weir.Rejection); {
	case r != nil && r.Reason != weir.Closed: // whatever the server says of a wait
		return keyed.Verdict{}, weir.Reject(weir.OverLimit, r.RetryAfter)
	case err != nil:
		return keyed.Verdict{}, err
	}
	return keyed.Verdict{Decision: weir.Decision{OK: true}, Permit: p.Move()}, nil
}
