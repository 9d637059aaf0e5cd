package client

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir"
)

// Lease returns the concurrency limiter of a key. Its Acquire leases n units; it
// waits for them at the server as For does. The Client renews the lease in the
// background while the Permit is held. Release gives it back and reports the
// outcome, which an Auto limit learns from.
//
// If the server is away for longer than the lease lasts, other callers may get the
// units while the work goes on. Use Hold to learn of that. The Permit's Use does
// nothing.
//
// While the server is away, Config.Away decides. Local allows a Share of the last
// limit that the server has named for the key, at least one unit, without a wait,
// and everything if it has named none. The errors are the same as for For. If no
// rule with a concurrency matches the key, the error is a *StatusError, 404.
func (c *Client) Lease(key string) weir.Limiter { return units{c, key} }

type units struct {
	c   *Client
	key string
}

func (u units) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	check(n)
	if n == 0 {
		return weir.Permit{}, ctx.Err()
	}
	key, err := clean(u.key, n)
	if err != nil {
		return weir.Permit{}, err
	}
	l, err := u.c.lease(ctx, key, n, func(error) {})
	switch {
	case away(err):
		return u.c.leaseLocally(ctx, key, n)
	case err != nil:
		return weir.Permit{}, err
	}
	return weir.NewPermit(&l.owner, weir.Grant{N: n}), nil
}

// A Held is a lease that tells its holder when it is lost.
type Held struct {
	// Context is for the work. It is a child of the context of Hold. It ends with
	// Release and, with the cause ErrLost, when the lease is lost.
	context.Context
	// Permit gives the lease back with its Release.
	weir.Permit
	// Token is the fencing token. It grows with each lease that the server
	// grants, so a resource can refuse a token that is lower than one it has seen.
	// That stops a holder that has not noticed yet that its lease is lost.
	Token uint64
}

// Hold leases n units of a key, as Lease does, for work that must stop before
// another caller gets the units: a lock, if the limit is 1. Only the server can
// grant that. While it is away, the error is a *weir.Rejection, weir.Closed,
// whatever Config.Away says. Hold panics if n < 1.
func (c *Client) Hold(ctx context.Context, key string, n int) (*Held, error) {
	if n < 1 {
		panic("client: Hold of no units")
	}
	key, err := clean(key, n)
	if err != nil {
		return nil, err
	}
	holding, cancel := context.WithCancelCause(ctx)
	l, err := c.lease(ctx, key, n, cancel)
	if err != nil {
		cancel(err)
		if away(err) {
			err = weir.Reject(weir.Closed, c.circuit.retryAfter(time.Now()))
		}
		return nil, err
	}
	return &Held{holding, weir.NewPermit(&l.owner, weir.Grant{N: n}), l.token}, nil
}

// Use does nothing: a unit in flight is a unit, whatever it costs.
func (l *lease) Use(g weir.Grant, _ int) int { return g.N }

// Release ends the context of the holder before another caller can get the units.
func (l *lease) Release(_ weir.Grant, o weir.Outcome) {
	l.cancel(context.Canceled)
	if l.c.keeper.remove(l) {
		l.c.unlease(l.key, l.id, o)
	}
}

// lease asks for a lease, and has the keeper renew it. It calls cancel when the
// lease is lost.
func (c *Client) lease(ctx context.Context, key string, n int, cancel context.CancelCauseFunc) (*lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	asked := time.Now()
	wait, own := c.patience(ctx, asked)
	query := waiting(n, wait)
	if c.cfg.TTL > 0 {
		query += "&" + ttl(c.cfg.TTL)
	}
	got, err := await(c, ctx, key, wait, func(ctx context.Context) (got leased, err error) {
		err = c.exchange(ctx, &call{
			method: http.MethodPost, path: []string{"lease", segment(key)}, query: query,
			read: func(body []byte) (err error) {
				got, err = decodeLease(body)
				return err
			},
		})
		return got, impatient(err, own, weir.OverLimit)
	}, func(got leased) { c.unlease(key, got.ID, weir.Ignored) })
	if err != nil {
		return nil, err
	}
	l := &lease{c: c, key: key, id: got.ID, n: n, token: got.Token, cancel: cancel}
	l.owner = l
	waited := max(got.WaitedMS.duration()-time.Millisecond, 0) // it is rounded up
	l.last(asked.Add(waited), got.TTLMS.duration())
	c.keeper.add(l, got.Limit)
	if c.ctx.Err() != nil { // Close may have returned all leases already
		l.Release(weir.Grant{}, weir.Ignored)
		return nil, errClosed
	}
	return l, nil
}

// maxShares bounds the keys of which the limit is kept.
const maxShares = 1 << 14

// A share is the last known limit of a key, and the units held by this Client.
type share struct{ limit, held int }

// share returns the share of a key; mu is held.
func (k *keeper) share(key string) *share {
	s := k.shares[key]
	if s == nil {
		s = new(share)
		k.shares[key] = s
	}
	return s
}

// leave counts released units; mu is held. It drops a key without held units if
// there are too many keys, or if its limit is not known.
func (k *keeper) leave(key string, n int) {
	s := k.shares[key]
	if s.held -= n; s.held == 0 && (s.limit == 0 || len(k.shares) > maxShares) {
		delete(k.shares, key)
	}
}

// enterLocally takes units while the server is away, if the Client's part of the
// limit allows it.
func (k *keeper) enterLocally(key string, n int, part float64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.share(key)
	if s.limit > 0 && s.held+n > max(int(float64(s.limit)*part), 1) {
		return false
	}
	s.held += n
	return true
}

// leaseLocally decides about a lease while the server is away.
func (c *Client) leaseLocally(ctx context.Context, key string, n int) (weir.Permit, error) {
	switch c.cfg.Away {
	case Allow, Deny:
		return c.local(key).Acquire(ctx, n)
	}
	if !c.keeper.enterLocally(key, n, c.cfg.Share) {
		c.counts.localDenied.Add(1)
		return weir.Permit{}, weir.Reject(weir.OverLimit, 0)
	}
	c.counts.localAllowed.Add(1)
	u := &localUnits{c: c, key: key}
	u.owner = u
	return weir.NewPermit(&u.owner, weir.Grant{N: n}), nil
}

// localUnits are units taken while the server is away. They own their Permit.
type localUnits struct {
	owner weir.Owner // themselves
	c     *Client
	key   string
}

func (u *localUnits) Use(g weir.Grant, _ int) int { return g.N }

func (u *localUnits) Release(g weir.Grant, _ weir.Outcome) {
	k := &u.c.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leave(u.key, g.N)
}
