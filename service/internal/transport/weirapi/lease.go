package weirapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
)

// AcquireLease takes a lease at once.
func (a *API) AcquireLease(ctx context.Context, r *weirv1.AcquireLeaseRequest) (*weirv1.AcquireLeaseResponse, error) {
	key, leave, err := a.admit(ctx, token.Lease, r.GetKey(), connlimit.Deciding)
	if err != nil {
		return nil, err
	}
	defer leave()
	req := decider.LeaseRequest{Key: key}
	if err := units(&req, r.N, r.GetTtlMs()); err != nil {
		return nil, err
	}
	d, err := a.acquire(ctx, ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.AcquireLeaseResponse{Decision: d}, nil
}

// WaitLease waits for a lease.
func (a *API) WaitLease(r *weirv1.WaitLeaseRequest, stream grpc.ServerStreamingServer[weirv1.WaitLeaseResponse]) error {
	ctx := stream.Context()
	key, leave, err := a.admit(ctx, token.Lease, r.GetKey(), connlimit.Waiting)
	if err != nil {
		return err
	}
	defer leave()
	req := decider.LeaseRequest{Key: key, Wait: true}
	if err := units(&req, r.N, r.GetTtlMs()); err != nil {
		return err
	}
	// If the client is gone, the context ends the wait.
	req.OnWait = func() {
		_ = stream.Send(&weirv1.WaitLeaseResponse{Event: &weirv1.WaitLeaseResponse_Queued{Queued: &weirv1.Queued{}}})
	}
	within, cancel, err := bound(ctx, r.TimeoutMs)
	if err != nil {
		return err
	}
	defer cancel()
	d, err := a.acquire(ctx, within, req)
	if err != nil {
		return err
	}
	err = stream.Send(&weirv1.WaitLeaseResponse{Event: &weirv1.WaitLeaseResponse_Decision{Decision: d}})
	if id := d.GetLease().GetLeaseId(); id != "" && (err != nil || ctx.Err() != nil) { // the client left as its turn came
		_ = a.decider.Return(context.WithoutCancel(ctx), key, id, weir.Ignored) // an error cannot be handled
	}
	return err
}

// units sets the units and the TTL of a request for a lease.
func units(req *decider.LeaseRequest, n *int32, ttl int64) (err error) {
	if req.N, err = cost(n, 1); err != nil {
		return err
	}
	req.TTL, err = timeToLive(ttl)
	return err
}

func timeToLive(ms int64) (time.Duration, error) {
	if ms < 0 {
		return 0, bad("ttl_ms = %d: must be >= 0", ms)
	}
	return span(ms), nil
}

// acquire takes a lease of a call, within a part of its time.
func (a *API) acquire(ctx, within context.Context, req decider.LeaseRequest) (*weirv1.LeaseDecision, error) {
	l, err := a.decider.Acquire(within, req)
	d := &weirv1.LeaseDecision{Degraded: stepOf(l.Step)}
	if rejection, rejected := errors.AsType[*weir.Rejection](err); rejected {
		d.Reason, d.RetryAfterMs = reasonOf(rejection.Reason), retryAfter(rejection.RetryAfter)
		return d, nil
	}
	switch {
	case err == nil:
		d.Lease = lease(&l)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		d.Reason = weirv1.Reason_REASON_TOO_LATE
	default:
		return nil, failed(ctx, err)
	}
	return d, nil
}

// RenewLease extends a lease.
func (a *API) RenewLease(ctx context.Context, r *weirv1.RenewLeaseRequest) (*weirv1.RenewLeaseResponse, error) {
	key, leave, err := a.admit(ctx, token.Lease, r.GetKey(), connlimit.Settling)
	if err != nil {
		return nil, err
	}
	defer leave()
	ttl, err := timeToLive(r.GetTtlMs())
	if err != nil {
		return nil, err
	}
	l, err := a.decider.Renew(ctx, key, r.GetLeaseId(), ttl)
	if err != nil {
		return nil, failed(ctx, err)
	}
	return &weirv1.RenewLeaseResponse{Lease: lease(&l), Degraded: stepOf(l.Step)}, nil
}

// ReturnLease ends a lease.
func (a *API) ReturnLease(ctx context.Context, r *weirv1.ReturnLeaseRequest) (*weirv1.ReturnLeaseResponse, error) {
	key, leave, err := a.admit(ctx, token.Lease, r.GetKey(), connlimit.Settling)
	if err != nil {
		return nil, err
	}
	defer leave()
	o, ok := outcomes[r.GetOutcome()]
	if !ok {
		return nil, bad("the outcome is unknown: %d", r.GetOutcome())
	}
	if err := a.decider.Return(ctx, key, r.GetLeaseId(), o); err != nil {
		return nil, failed(ctx, err)
	}
	return &weirv1.ReturnLeaseResponse{}, nil
}

func lease(l *decider.Lease) *weirv1.Lease {
	return &weirv1.Lease{LeaseId: l.ID, Token: int64(l.Token), TtlMs: l.TTL.Milliseconds(), Limit: int64(l.Limit), Inflight: int64(l.Inflight), WaitedMs: millis(l.Waited)}
}
