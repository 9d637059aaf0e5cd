package client

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir"
)

// ErrLost is the cause of the context of a Held that has lost its lease: the lease
// expired before the server could renew it, or the server no longer knew it. Another
// caller may hold it now.
var ErrLost = errors.New("client: the lease is lost")

// Lease returns the concurrency limiter of a key. Its Acquire leases n units; it
// waits for them at the server as For does. The Client renews the lease in the
// background while the Permit is held: after a third of its time to live, but not within
// 100 ms, so that a shorter lease is lost. Release gives it back and reports the
// outcome, which an Auto limit learns from.
//
// If the server is away for longer than the lease lasts, other callers may get the
// units while the work goes on. Use Hold to learn of that. The Permit's Use does
// nothing.
//
// While the server is away, Config.Away decides. Local allows the Client's share of the
// last limit that the server has named for the key, less the units that it holds,
// without a wait, and nothing if the server has named none. The errors are the same as
// for For. If no rule with a concurrency matches the key, the error is a *StatusError,
// 404.
func (c *Client) Lease(key string) weir.Limiter { return limiter{c, key, (*Client).acquireUnits} }

func (c *Client) acquireUnits(ctx context.Context, key string, n int) (weir.Permit, error) {
	return c.leaseUnits(ctx, key, n, c.cfg.MaxWait)
}

// leaseUnits leases units, and waits for them for at most a time.
func (c *Client) leaseUnits(ctx context.Context, key string, n int, most time.Duration) (weir.Permit, error) {
	l, err := c.lease(ctx, key, n, most, func(error) {})
	if away(err) {
		l, err = c.leaseLocally(key, n)
	}
	if err != nil {
		return weir.Permit{}, err
	}
	return weir.OwnedPermit(&l.owner, weir.Grant{N: n}), nil
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
	l, err := c.lease(ctx, key, n, c.cfg.MaxWait, cancel)
	if err != nil {
		cancel(err)
		if away(err) {
			err = c.rejectAway()
		}
		return nil, err
	}
	return &Held{holding, weir.OwnedPermit(&l.owner, weir.Grant{N: n}), l.token}, nil
}

// maxRenewals bounds the renewals under way at once; one if the server is away.
const maxRenewals = 32

// leases are the leases that the Client holds.
type leases struct {
	renewals chan struct{} // of capacity maxRenewals; has an element per renewal
	single   chan struct{} // of capacity 1; has an element per renewal while the server is away

	mu   sync.Mutex // guards what follows, and the timers
	held map[*lease]struct{}
}

// A lease is units of a key that the server has granted or, if id is empty, that the
// Client has taken while the server was away. It owns their Permit.
type lease struct {
	owner  weir.Owner // itself
	c      *Client
	key    string
	id     string
	n      int
	token  uint64
	cancel context.CancelCauseFunc // ends the context of its holder
	timer  *time.Timer             // of the next renewal; nil if id is empty

	// Only lease and then renew use what follows, one after the other.
	ttl     time.Duration
	expires time.Time
}

// lease asks for a lease, which the server may let wait for at most a time, and has it renewed. It
// calls cancel when the lease is lost.
func (c *Client) lease(ctx context.Context, key string, n int, most time.Duration, cancel context.CancelCauseFunc) (*lease, error) {
	asked := time.Now()
	wait, own := c.patience(ctx, asked)
	if most < wait {
		wait, own = most, true
	}
	path := target("lease", key) + waiting(n, wait)
	if c.cfg.TTL > 0 {
		path += "&ttl=" + milliseconds(c.cfg.TTL)
	}
	a, err := c.wait(ctx, newAsk(key, n), wait, &call{method: http.MethodPost, key: key, path: path, check: isLease})
	if err != nil {
		return nil, impatient(err, own, weir.OverLimit)
	}
	l := &lease{c: c, key: key, id: a.LeaseID, n: n, token: a.Token, cancel: cancel}
	c.limits.Granted(key, n, a.Limit)
	l.hold()
	waited := max(a.WaitedMS.duration()-time.Millisecond, 0) // it is rounded up
	l.last(asked.Add(waited), a.TTLMS)
	if c.ctx.Err() != nil { // Close may have returned all leases already
		l.Release(weir.Grant{}, weir.Ignored)
		return nil, errClosed
	}
	return l, nil
}

// leaseLocally decides about a lease while the server is away.
func (c *Client) leaseLocally(key string, n int) (*lease, error) {
	c.counts.local.Add(1)
	switch {
	case c.cfg.Away == Deny:
		return nil, c.rejectAway()
	case c.cfg.Away == Allow:
		c.limits.Granted(key, n, 0)
	case !c.limits.Enter(key, n):
		return nil, weir.Reject(weir.OverLimit, c.circuit.RetryAfter(time.Now()))
	}
	l := &lease{c: c, key: key, n: n, cancel: func(error) {}}
	l.hold()
	return l, nil
}

// hold adds the lease to the held leases.
func (l *lease) hold() {
	k := &l.c.leases
	k.mu.Lock()
	defer k.mu.Unlock()
	l.owner = l
	k.held[l] = struct{}{}
}

// drop takes the lease out of the held leases, and reports whether it was there.
func (l *lease) drop() bool {
	k := &l.c.leases
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, held := k.held[l]; !held {
		return false
	}
	delete(k.held, l)
	l.c.limits.Leave(l.key, l.n)
	if l.timer != nil {
		l.timer.Stop()
	}
	return true
}

// minRenewal bounds how often a lease is renewed, however short a time to live the server
// answers with.
const minRenewal = 100 * time.Millisecond

// last says that the lease lasts for a time.
func (l *lease) last(from time.Time, ttl millis) {
	l.ttl = min(ttl.duration(), longest)
	l.expires = from.Add(l.ttl)
	l.renewAt(from.Add(min(max(l.ttl/3, minRenewal), l.ttl)))
}

// renewAt has the lease renewed at an instant, unless it is not held any more.
func (l *lease) renewAt(at time.Time) {
	k := &l.c.leases
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, held := k.held[l]; held {
		l.timer = time.AfterFunc(time.Until(at), func() { l.c.work.start(l.renew) })
	}
}

// renew has the lease last longer, tries again soon if that fails, and tells the
// holder if the lease is lost.
func (l *lease) renew() {
	err := l.extend()
	refused, _ := err.(*StatusError)
	now := time.Now()
	switch {
	case err == nil:
	case refused != nil && refused.Status == http.StatusNotFound, !now.Before(l.expires):
		if l.drop() {
			l.c.counts.lost.Add(1)
			l.cancel(ErrLost)
		}
	default:
		l.renewAt(now.Add(min(l.ttl/10, l.expires.Sub(now))))
	}
}

// extend asks the server to let the lease last. It lasts from when it was asked, at
// least.
func (l *lease) extend() error {
	c, k := l.c, &l.c.leases
	ctx, stop := context.WithDeadline(c.ctx, l.expires)
	defer stop()
	if !enter(ctx, k.renewals) {
		return errLate
	}
	defer leave(k.renewals)
	if c.circuit.Open() {
		if !enter(ctx, k.single) {
			return errLate
		}
		defer leave(k.single)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	asked := time.Now()
	r, err := c.exchange(ctx, &call{
		method: http.MethodPost, key: l.key, path: target("lease", l.key, l.id) + "?ttl=" + milliseconds(l.ttl), check: isLease,
	})
	if err == nil {
		l.last(asked, r.TTLMS)
	}
	return err
}

// Use does nothing: a unit in flight is a unit, whatever it costs.
func (l *lease) Use(g weir.Grant, _ int) int { return g.N }

// Release ends the context of the holder before another caller can get the units.
func (l *lease) Release(_ weir.Grant, o weir.Outcome) { l.end(context.Canceled, o) }

// end ends the context of the holder, and gives the lease back.
func (l *lease) end(cause error, o weir.Outcome) {
	l.cancel(cause)
	if l.drop() && l.id != "" {
		l.c.giveBackLease(l.key, l.id, o)
	}
}

// releaseAll gives all leases back, of a Client that is closed.
func (c *Client) releaseAll() {
	c.leases.mu.Lock()
	all := slices.Collect(maps.Keys(c.leases.held))
	c.leases.mu.Unlock()
	for _, l := range all {
		l.end(errClosed, weir.Ignored)
	}
}
