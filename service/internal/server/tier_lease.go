package server

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// assignedLeases are leases of the upstream, and of the node while that does not answer.
type assignedLeases struct {
	*lease.Registry // of the limits that count them
	*Tier
}

// Acquire takes a lease: see node.Leases. The upstream grants it. While that does not
// answer, the node grants leases by its share of the limits, or as the rules say; the next
// renewal tells the upstream. Rules with a limit that is auto have no share.
func (t assignedLeases) Acquire(ctx context.Context, m *rules.Match, req decider.LeaseRequest, none lease.Wait) (decider.Lease, lease.Wait, error) {
	l, err := t.acquire(ctx, m, &req)
	return l, none, err
}

func (t *Tier) acquire(ctx context.Context, m *rules.Match, req *decider.LeaseRequest) (decider.Lease, error) {
	terms, ok := lease.TermsOf(m.List)
	if !ok {
		return decider.Lease{}, decider.ErrNoLeasing
	}
	l := t.newLease(m, req.Key, req.N)
	var got decider.Lease
	ask, asked := t.ask, *req
	if asked.Wait = req.Wait && !t.room.Closed(); asked.Wait {
		ask = t.askWaiting
	}
	err := ask(ctx, func(ctx context.Context) (err error) {
		got, err = t.cfg.Upstream.Acquire(ctx, asked)
		return err
	})
	switch err {
	case nil:
		l.id, l.upstream, l.token, l.ttl = got.ID, got.ID, got.Token, got.TTL
		t.held.add(l, t.leases.Max())
		l.count()
		return got, nil
	case errUpstream:
		if asked.Wait && t.dismissed.Err() != nil {
			return t.refuseClosed(l)
		}
		l.ttl = terms.TTL
		if req.TTL > 0 {
			l.ttl = min(req.TTL, terms.MaxTTL)
		}
		return t.leaseAway(l)
	}
	rejection, ok := err.(*weir.Rejection)
	switch {
	case ok && req.Wait && !asked.Wait:
		return t.refuseClosed(l)
	case ok:
		l.refused(rejection.Reason)
	}
	return got, err
}

// refuseClosed refuses a lease because the node is closing.
func (t *Tier) refuseClosed(l *tierLease) (decider.Lease, error) {
	l.refused(weir.Closed)
	return decider.Lease{}, weir.Reject(weir.Closed, waiting.DrainRetry)
}

// leaseAway decides about a lease while the upstream does not answer.
func (t *Tier) leaseAway(l *tierLease) (decider.Lease, error) {
	h, step := &t.held, decider.Share
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireLocked(time.Now())
	used := make([]int, len(l.parts))
	for i := range l.parts {
		p := &l.parts[i]
		away := cmp.Or(p.rule.Away, t.cfg.Away)
		if away != config.AwayShare {
			step = decider.ByRule
		}
		limit := int(p.rule.Concurrency.Limit)
		used[i] = h.units[p.bucket()] + l.n
		switch {
		case p.rule.Mode == config.Shadow || away == config.AwayAllow:
		case away == config.AwayDeny, limit == int(config.Auto):
			p.counts.Refused(weir.Closed)
			t.steps[decider.ByRule].Add(1)
			return decider.Lease{Step: decider.ByRule}, weir.Reject(weir.Closed, tierRetry)
		case used[i] > limit/t.memory.Instances():
			p.counts.Refused(weir.OverLimit)
			t.steps[step].Add(1)
			return decider.Lease{Step: step}, weir.Reject(weir.OverLimit, 0)
		}
	}
	t.steps[step].Add(1)
	l.id, l.token = newLeaseID(), uint64(time.Now().UnixMicro())
	if !h.addLocked(l, t.leases.Max()) {
		return decider.Lease{Step: step}, weir.Reject(weir.OverLimit, 0)
	}
	l.count()
	return l.view(used, step), nil
}

// Renew extends a lease: see node.Leases. The upstream is asked for a lease that it does not
// know, because the node has granted it or renewed it alone; while the upstream has no
// room, the node extends it. While the upstream does not answer, leases of rules that deny then
// are not renewed.
func (t assignedLeases) Renew(ctx context.Context, _ *rules.Match, key, id string, ttl time.Duration) (decider.Lease, error) {
	l := t.held.find(key, id, time.Now())
	if l != nil && t.held.upstreamOf(l) == "" {
		return t.renewAgain(ctx, l, ttl)
	}
	got, err := t.renewThere(ctx, l, key, id, ttl)
	switch {
	case err == nil || l == nil:
	case err == errUpstream:
		return t.extend(l, ttl, true)
	case err == decider.ErrNoLease && t.held.isAlone(l):
		return t.renewAgain(ctx, l, ttl)
	case err == decider.ErrNoLease:
		t.held.drop(id)
	}
	return got, err
}

// renewAgain asks the upstream for a lease that it does not know.
func (t *Tier) renewAgain(ctx context.Context, l *tierLease, ttl time.Duration) (got decider.Lease, err error) {
	err = t.ask(ctx, func(ctx context.Context) (err error) {
		got, err = t.cfg.Upstream.Acquire(ctx, decider.LeaseRequest{Key: l.key, N: l.n, TTL: cmp.Or(ttl, l.ttl)})
		return err
	})
	switch {
	case err == nil:
		t.held.renew(l, got.ID, got.TTL, false)
		l.renewed()
		got.ID, got.Token = l.id, l.token
		return got, nil
	case ctx.Err() != nil:
		return decider.Lease{}, ctx.Err()
	}
	return t.extend(l, ttl, err == errUpstream)
}

// renewThere renews a lease at the upstream; l is nil if the node does not remember it.
func (t *Tier) renewThere(ctx context.Context, l *tierLease, key, id string, ttl time.Duration) (got decider.Lease, err error) {
	there := id
	if l != nil {
		there = t.held.upstreamOf(l)
	}
	err = t.ask(ctx, func(ctx context.Context) (err error) {
		got, err = t.cfg.Upstream.Renew(ctx, key, there, ttl)
		return err
	})
	if err == nil && l != nil {
		t.held.renew(l, there, got.TTL, false)
		l.renewed()
		got.ID, got.Token = l.id, l.token
	}
	return got, err
}

// extend extends a lease without the upstream, which is away or has no room.
func (t *Tier) extend(l *tierLease, ttl time.Duration, away bool) (decider.Lease, error) {
	if away && l.deniedAway(t.cfg.Away) {
		return decider.Lease{}, errUpstream
	}
	if ttl <= 0 {
		ttl = l.ttl
	}
	if terms, ok := lease.TermsOf(l.rules()); ok {
		ttl = min(ttl, max(terms.MaxTTL, l.ttl))
	}
	t.held.renew(l, "", ttl, true)
	l.renewed()
	t.steps[decider.Share].Add(1)
	got := l.view(t.held.used(l), decider.Share)
	got.TTL = ttl
	return got, nil
}

// Return ends a lease: see node.Leases. If the upstream does not answer, the lease ends there
// with its time to live.
func (t assignedLeases) Return(ctx context.Context, _ *rules.Match, key, id string, o weir.Outcome) error {
	l := t.held.find(key, id, time.Now())
	there, alone := id, false
	if l != nil {
		there, alone = t.held.upstreamOf(l), t.held.isAlone(l)
		t.held.drop(id)
		l.returned()
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
