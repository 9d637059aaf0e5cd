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

// Wait waits for tokens.
func (a *API) Wait(r *weirv1.WaitRequest, stream grpc.ServerStreamingServer[weirv1.WaitResponse]) error {
	ctx := stream.Context()
	key, leave, err := a.admit(ctx, token.Decide, r.GetKey(), connlimit.Waiting)
	if err != nil {
		return err
	}
	defer leave()
	req := decider.Request{Key: key, OwnQueue: r.MaxRequestsInQueue != nil}
	if err := a.ask(&req, r.N, r.MaxRequests); err != nil {
		return err
	}
	if req.Queue, err = own("max_requests_in_queue", r.MaxRequestsInQueue, 0, a.cfg.MaxQueue); err != nil {
		return err
	}
	// If the client is gone, the context ends the wait.
	req.OnWait = func() {
		_ = stream.Send(&weirv1.WaitResponse{Event: &weirv1.WaitResponse_Queued{Queued: &weirv1.Queued{}}})
	}
	within, cancel, err := bound(ctx, r.TimeoutMs)
	if err != nil {
		return err
	}
	defer cancel()
	var v decider.Verdict
	switch err := a.decider.Wait(within, &req, &v); {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // the estimate on arrival was earlier
		v.OK, v.Reason, v.RetryAfter = false, weir.TooLate, 0
	default:
		return failed(ctx, err)
	}
	err = stream.Send(&weirv1.WaitResponse{Event: &weirv1.WaitResponse_Decision{Decision: a.whole(&req, &v, false)}})
	if v.OK && (err != nil || ctx.Err() != nil) { // the client left as its turn came
		id := a.decider.AppendGrantID(nil, v.Grant, key)
		_, _ = a.decider.Settle(context.WithoutCancel(ctx), key, string(id), 0) // an error cannot be handled
	}
	return err
}

// bound returns a context that ends with the call or after the timeout of the request.
func bound(ctx context.Context, timeout *int64) (context.Context, context.CancelFunc, error) {
	switch {
	case timeout == nil:
		return ctx, func() {}, nil
	case *timeout < 0:
		return nil, nil, bad("timeout_ms = %d: must be >= 0", *timeout)
	}
	within, cancel := context.WithTimeout(ctx, span(*timeout))
	return within, cancel, nil
}

// span returns a number of milliseconds as a time.
func span(ms int64) time.Duration {
	return time.Duration(min(ms, int64(weir.Never/time.Millisecond)-1)) * time.Millisecond
}
