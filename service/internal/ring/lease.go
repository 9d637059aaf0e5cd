package ring

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// keyRoute returns the function that returns the slot of a key's grants and leases.
func (r *Ring) keyRoute(key string) func() uint16 {
	return func() uint16 { return r.cfg.Local.RouteKey(key) }
}

// AppendGrantID appends the id of a grant: see decider.Decider.
func (r *Ring) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	if g.ID != "" {
		return append(b, g.ID...)
	}
	return r.cfg.Local.AppendGrantID(b, g, key)
}

// Settle reports the true cost of a grant: see decider.Decider.
func (r *Ring) Settle(ctx context.Context, key, id string, n int) (done decider.Settlement, err error) {
	err = r.ask(ctx, r.keyRoute(key), r.patient(), nil, func(ctx context.Context, d decider.Decider) (err error) {
		done, err = d.Settle(ctx, key, id, n)
		return err
	})
	if err == errAlone || err == decider.ErrNoGrant {
		here, failed := r.cfg.Fallback.Settle(ctx, key, id, n)
		if failed == nil {
			return here, nil
		}
	}
	return done, r.unavailable(err)
}

// unavailable returns the error for errAlone.
func (r *Ring) unavailable(err error) error {
	if err == errAlone {
		return wire.ErrUnavailable
	}
	return err
}

// Acquire takes a lease: see decider.Decider. While the owner of the key cannot be asked, this
// node grants leases of its share, without a wait.
func (r *Ring) Acquire(ctx context.Context, req decider.LeaseRequest) (l decider.Lease, err error) {
	came := time.Now()
	last := came
	req.OnWait = onceOnly(req.OnWait)
	held, caller := r.hasty(), ctx
	if r.closes.Load() {
		return l, weir.Reject(weir.Closed, waiting.DrainRetry)
	}
	if req.Wait {
		held = r.patient()
		var leave func()
		ctx, leave = r.enter(ctx)
		defer leave()
	}
	err = r.ask(ctx, r.keyRoute(req.Key), held, req.OnWait, func(ctx context.Context, d decider.Decider) (err error) {
		last = time.Now()
		l, err = d.Acquire(ctx, req)
		return err
	})
	if err == errAlone {
		req.Wait = false
		l, err = r.cfg.Fallback.Acquire(ctx, req)
	}
	if err != nil && ctx.Err() != nil && caller.Err() == nil { // see Close
		err = weir.Reject(weir.Closed, waiting.DrainRetry)
	}
	if before := last.Sub(came); before > time.Millisecond {
		l.Waited += before
	}
	r.counts.decided(l.Step)
	return l, err
}

// Renew extends a lease: see decider.Decider. The error is wire.ErrUnavailable if the owner of the
// key cannot be asked: the lease may still be held.
func (r *Ring) Renew(ctx context.Context, key, id string, ttl time.Duration) (l decider.Lease, err error) {
	err = r.ask(ctx, r.keyRoute(key), r.patient(), nil, func(ctx context.Context, d decider.Decider) (err error) {
		l, err = d.Renew(ctx, key, id, ttl)
		return err
	})
	if err == errAlone || err == decider.ErrNoLease {
		here, failed := r.cfg.Fallback.Renew(ctx, key, id, ttl)
		if failed == nil {
			return here, nil
		}
	}
	return l, r.unavailable(err)
}

// Return ends a lease: see decider.Decider. The error is wire.ErrUnavailable if the owner of the
// key cannot be asked: the lease lasts until it expires.
func (r *Ring) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	err := r.ask(ctx, r.keyRoute(key), r.patient(), nil, func(ctx context.Context, d decider.Decider) error {
		return d.Return(ctx, key, id, o)
	})
	if err == errAlone || err == decider.ErrNoLease {
		if r.cfg.Fallback.Return(ctx, key, id, o) == nil {
			return nil
		}
	}
	return r.unavailable(err)
}

// Explain reports what a request for the key would get: see decider.Decider. While the owner of the
// key cannot be asked, this node explains its share.
func (r *Ring) Explain(ctx context.Context, key string) (x decider.Explanation, err error) {
	err = r.ask(ctx, r.keyRoute(key), r.hasty(), nil, func(ctx context.Context, d decider.Decider) (err error) {
		x, err = d.Explain(ctx, key)
		return err
	})
	if errors.Is(err, errAlone) {
		return r.cfg.Fallback.Explain(ctx, key)
	}
	return x, err
}
