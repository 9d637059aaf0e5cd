package tier

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/away"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Leases are leases of the upstream, and of the node while that does not answer.
type Leases struct {
	*lease.Registry // of the limits that count them
	counts          *Counts
}

// Acquire takes a lease: see node.Leases. The upstream grants it. While that does not
// answer, the node grants leases by its share of the limits, or as the rules say; the next
// renewal tells the upstream. Rules with a limit that is auto have no share.
func (in Leases) Acquire(ctx context.Context, m *rules.Match, req decider.LeaseRequest, none lease.Wait) (decider.Lease, lease.Wait, error) {
	got, err := in.counts.held.Acquire(m, &req, func(l *away.Lease) (decider.Lease, error) { return in.counts.acquire(ctx, l, &req) })
	return got, none, err
}

func (t *Counts) acquire(ctx context.Context, l *away.Lease, req *decider.LeaseRequest) (got decider.Lease, err error) {
	ask, asked := t.ask, *req
	if asked.Wait = req.Wait && !t.of.Room.Closed(); asked.Wait {
		ask = t.askWaiting
	}
	err = ask(ctx, func(ctx context.Context) (err error) {
		got, err = t.cfg.Upstream.Acquire(ctx, asked)
		return err
	})
	switch err {
	case nil:
		l.ID, l.Token, l.TTL = got.ID, got.Token, got.TTL
		t.held.Add(l, got.ID, time.Now().Add(l.TTL))
		return got, nil
	case errUpstream:
		if asked.Wait && t.dismissed.Err() != nil {
			return decider.Lease{}, l.Refuse(weir.Closed, waiting.DrainRetry)
		}
		return t.held.Grant(l, rand.Text(), away.Retry)
	}
	rejection, ok := err.(*weir.Rejection)
	switch {
	case ok && req.Wait && !asked.Wait:
		return decider.Lease{}, l.Refuse(weir.Closed, waiting.DrainRetry)
	case ok:
		_ = l.Refuse(rejection.Reason, 0)
	}
	return got, err
}

// Renew extends a lease: see node.Leases. The upstream is asked for a lease that it does not
// know, because the node has granted it or renewed it alone; while the upstream has no
// room, the node extends it. While the upstream does not answer, leases of rules that deny then
// are not renewed.
func (in Leases) Renew(ctx context.Context, m *rules.Match, key, id string, ttl time.Duration) (decider.Lease, error) {
	t := in.counts
	l, there, alone := t.find(key, id)
	if there == "" {
		return t.renewAgain(ctx, m, l, ttl)
	}
	got, err := t.renewThere(ctx, l, key, there, ttl)
	switch {
	case err == nil || l == nil:
	case err == errUpstream:
		return t.extend(m, l, ttl, true)
	case err == decider.ErrNoLease && alone:
		return t.renewAgain(ctx, m, l, ttl)
	case err == decider.ErrNoLease:
		t.held.Drop(id)
	}
	return got, err
}

// renewAgain asks the upstream for a lease that it does not know.
func (t *Counts) renewAgain(ctx context.Context, m *rules.Match, l *away.Lease, ttl time.Duration) (got decider.Lease, err error) {
	err = t.ask(ctx, func(ctx context.Context) (err error) {
		got, err = t.cfg.Upstream.Acquire(ctx, decider.LeaseRequest{Key: l.Key, N: l.N, TTL: cmp.Or(ttl, l.TTL)})
		return err
	})
	switch {
	case err == nil:
		return t.renewed(l, got.ID, got), nil
	case ctx.Err() != nil:
		return decider.Lease{}, ctx.Err()
	}
	return t.extend(m, l, ttl, err == errUpstream)
}

// renewThere renews a lease by its id at the upstream; l is nil if the node does not remember it.
func (t *Counts) renewThere(ctx context.Context, l *away.Lease, key, there string, ttl time.Duration) (got decider.Lease, err error) {
	err = t.ask(ctx, func(ctx context.Context) (err error) {
		got, err = t.cfg.Upstream.Renew(ctx, key, there, ttl)
		return err
	})
	if err == nil && l != nil {
		got = t.renewed(l, there, got)
	}
	return got, err
}

// renewed returns a lease that the upstream has renewed as its holder sees it.
func (t *Counts) renewed(l *away.Lease, there string, got decider.Lease) decider.Lease {
	t.held.Renew(l, there, time.Now().Add(got.TTL), false)
	l.Renewed()
	got.ID, got.Token = l.ID, l.Token
	return got
}

// find returns the lease with an id, its id at the upstream, and whether the node has granted or renewed it alone. The
// lease is nil if the node does not remember it.
func (t *Counts) find(key, id string) (l *away.Lease, there string, alone bool) {
	if l = t.held.Find(key, id); l == nil {
		return nil, id, false
	}
	there, alone = t.held.State(l)
	return l, there, alone
}

// extend extends a lease without the upstream, which is away or has no room.
func (t *Counts) extend(m *rules.Match, l *away.Lease, ttl time.Duration, gone bool) (decider.Lease, error) {
	if gone && t.held.Denies(l) {
		return decider.Lease{}, errUpstream
	}
	if ttl <= 0 {
		ttl = l.TTL
	}
	if terms, ok := lease.TermsOf(m.List); ok {
		ttl = min(ttl, max(terms.MaxTTL, l.TTL))
	}
	t.held.Renew(l, "", time.Now().Add(ttl), true)
	l.Renewed()
	t.ladder.Count(decider.Share)
	got := l.View(t.held.Used(l))
	got.TTL, got.Step = ttl, decider.Share
	return got, nil
}

// Return ends a lease: see node.Leases. If the upstream does not answer, the lease ends there
// with its time to live.
func (in Leases) Return(ctx context.Context, _ *rules.Match, key, id string, o weir.Outcome) error {
	t := in.counts
	l, there, alone := t.find(key, id)
	if l != nil {
		t.held.Return(l, o)
		l.Returned()
		if there == "" {
			return nil
		}
	}
	err := t.ask(ctx, func(ctx context.Context) error { return t.cfg.Upstream.Return(ctx, key, there, o) })
	switch {
	case l != nil && err == errUpstream:
		t.dropped.Add(1)
		return nil
	case alone && err == decider.ErrNoLease: // it has expired there
		return nil
	}
	return err
}
