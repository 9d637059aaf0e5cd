package local

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Receiver is the decider.Decider for the requests that other members forward. It decides in
// this process: nothing is forwarded twice. Requests for keys that this node does not own, or whose
// state is still to come, get decider.ErrMoved: members see changes at different times, and ask again.
// Nothing is held here, because that would hold other requests of the same link.
type Receiver struct {
	Owner
	Share  Share
	Duties Duties
}

// Duties say what this node decides.
type Duties interface {
	// Owns reports whether this node decides about a slot with the whole limit. If not, and the error is
	// nil, it decides by its share.
	Owns(at uint16) (bool, error)
	// Assigns returns an error while this node must not answer leaves.
	Assigns() error
}

// Decide decides at once: see decider.Decider.
func (rc Receiver) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	owns, err := rc.Duties.Owns(rc.Route(req))
	switch {
	case err != nil:
		return err
	case !owns:
		return rc.Share.Decide(ctx, req, v)
	}
	return rc.Owner.Decide(ctx, req, v)
}

// Wait waits for missing tokens: see decider.Decider.
func (rc Receiver) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	owns, err := rc.Duties.Owns(rc.Route(req))
	switch {
	case err != nil:
		return err
	case !owns:
		return rc.Share.Wait(ctx, req, v)
	}
	return rc.Owner.Wait(ctx, req, v)
}

// Batch decides many requests: see decider.Decider.
func (rc Receiver) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	for i := range reqs {
		owns, err := rc.Duties.Owns(rc.Route(&reqs[i]))
		switch {
		case err != nil:
			return false, err
		case !owns:
			return rc.Share.Batch(ctx, reqs, all, verdicts)
		}
	}
	return rc.Owner.Batch(ctx, reqs, all, verdicts)
}

// Exchange takes the exchange of a leaf, with reports of keys that this node owns: see
// decider.Decider. The error is decider.ErrMoved if it does not own them all.
func (rc Receiver) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	if err := rc.Duties.Assigns(); err != nil {
		return err
	}
	for i := range x.Reports {
		if owns, err := rc.Duties.Owns(rc.RouteKey(x.Reports[i].Key)); err != nil || !owns {
			return decider.ErrMoved
		}
	}
	return rc.Owner.Exchange(ctx, x, got)
}

// Settle reports the true cost of a grant: see decider.Decider.
func (rc Receiver) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	if _, err := rc.Duties.Owns(rc.RouteKey(key)); err != nil {
		return decider.Settlement{}, err
	}
	done, err := rc.Owner.Settle(ctx, key, id, n)
	if err == decider.ErrNoGrant {
		return rc.Share.Settle(ctx, key, id, n)
	}
	return done, err
}

// Acquire takes a lease: see decider.Decider.
func (rc Receiver) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	owns, err := rc.Duties.Owns(rc.RouteKey(req.Key))
	switch {
	case err != nil:
		return decider.Lease{}, err
	case !owns:
		req.Wait = false
		return rc.Share.Acquire(ctx, req)
	}
	return rc.Owner.Acquire(ctx, req)
}

// Renew extends a lease: see decider.Decider.
func (rc Receiver) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	if _, err := rc.Duties.Owns(rc.RouteKey(key)); err != nil {
		return decider.Lease{}, err
	}
	l, err := rc.Owner.Renew(ctx, key, id, ttl)
	if err == decider.ErrNoLease {
		return rc.Share.Renew(ctx, key, id, ttl)
	}
	return l, err
}

// Return ends a lease: see decider.Decider.
func (rc Receiver) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	if _, err := rc.Duties.Owns(rc.RouteKey(key)); err != nil {
		return err
	}
	err := rc.Owner.Return(ctx, key, id, o)
	if err == decider.ErrNoLease {
		return rc.Share.Return(ctx, key, id, o)
	}
	return err
}
