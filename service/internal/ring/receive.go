package ring

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Receiver returns the decider.Decider for the requests that other members forward. It decides in
// this process: nothing is forwarded twice. It does not ask whether this node owns the key, because
// members see changes at different times. A key that was given up, or whose state is still to
// come, gets decider.ErrMoved: then the member asks again. Nothing is held here, because that would
// hold other requests of the same link.
func (r *Ring) Receiver() decider.Decider { return receiver{r.cfg.Local, r} }

type receiver struct {
	*server.Server
	r *Ring
}

// alone reports whether this node must decide by its share.
func (rc receiver) alone() bool { return !rc.r.view.Load().quorum }

// awaits returns decider.ErrMoved if the state of a key is still to come.
func (rc receiver) awaits(at uint16) error {
	if rc.Awaits(at) {
		return decider.ErrMoved
	}
	return nil
}

// Decide decides at once: see decider.Decider.
func (rc receiver) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if rc.alone() {
		return rc.r.cfg.Fallback.Decide(ctx, req, v)
	}
	if err := rc.awaits(rc.Route(req)); err != nil {
		return err
	}
	return rc.Server.Decide(ctx, req, v)
}

// Wait waits for missing tokens: see decider.Decider.
func (rc receiver) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if rc.alone() {
		return rc.r.cfg.Fallback.Wait(ctx, req, v)
	}
	if err := rc.awaits(rc.Route(req)); err != nil {
		return err
	}
	return rc.Server.Wait(ctx, req, v)
}

// Batch decides many requests: see decider.Decider.
func (rc receiver) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	if rc.alone() {
		return rc.r.cfg.Fallback.Batch(ctx, reqs, all, verdicts)
	}
	if slices.ContainsFunc(reqs, func(req decider.Request) bool { return rc.Awaits(rc.Route(&req)) }) {
		return false, decider.ErrMoved
	}
	return rc.Server.Batch(ctx, reqs, all, verdicts)
}

// Settle reports the true cost of a grant: see decider.Decider.
func (rc receiver) Settle(ctx context.Context, key, id string, n int) (decider.Settled, error) {
	if err := rc.awaits(rc.RouteKey(key)); err != nil {
		return decider.Settled{}, err
	}
	done, err := rc.Server.Settle(ctx, key, id, n)
	if err == decider.ErrNoGrant {
		return rc.r.cfg.Fallback.Settle(ctx, key, id, n)
	}
	return done, err
}

// Acquire takes a lease: see decider.Decider.
func (rc receiver) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	if rc.alone() {
		req.Wait = false
		return rc.r.cfg.Fallback.Acquire(ctx, req)
	}
	if err := rc.awaits(rc.RouteKey(req.Key)); err != nil {
		return decider.Lease{}, err
	}
	return rc.Server.Acquire(ctx, req)
}

// Renew extends a lease: see decider.Decider.
func (rc receiver) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	if err := rc.awaits(rc.RouteKey(key)); err != nil {
		return decider.Lease{}, err
	}
	l, err := rc.Server.Renew(ctx, key, id, ttl)
	if err == decider.ErrNoLease {
		return rc.r.cfg.Fallback.Renew(ctx, key, id, ttl)
	}
	return l, err
}

// Return ends a lease: see decider.Decider.
func (rc receiver) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	if err := rc.awaits(rc.RouteKey(key)); err != nil {
		return err
	}
	err := rc.Server.Return(ctx, key, id, o)
	if err == decider.ErrNoLease {
		return rc.r.cfg.Fallback.Return(ctx, key, id, o)
	}
	return err
}
