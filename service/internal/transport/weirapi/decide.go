package weirapi

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/atmost"
	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
	"github.com/weir-go/weir/service/internal/transport/wirejson/batchjson"
)

// Decide decides at once.
func (a *API) Decide(ctx context.Context, r *weirv1.DecideRequest) (*weirv1.DecideResponse, error) {
	key, leave, err := a.admit(ctx, token.Decide, r.GetKey(), connlimit.Deciding)
	if err != nil {
		return nil, err
	}
	defer leave()
	req := decider.Request{Key: key}
	if err := a.ask(&req, r.N, r.MaxRequests); err != nil {
		return nil, err
	}
	var v decider.Verdict
	if r.GetAtMost() {
		err = atmost.Decide(ctx, a.decider, &req, &v)
	} else {
		err = a.decider.Decide(ctx, &req, &v)
	}
	if err != nil {
		return nil, failed(ctx, err)
	}
	return &weirv1.DecideResponse{Decision: a.whole(&req, &v, r.GetAtMost())}, nil
}

// ask sets the cost and the own limit of a request.
func (a *API) ask(req *decider.Request, n, limit *int32) (err error) {
	if req.N, err = cost(n, 0); err != nil {
		return err
	}
	req.WantID = req.N > 0
	req.Limit, err = own("max_requests", limit, 1, a.cfg.MaxLimit)
	return err
}

// maxBatch bounds the requests of a batch.
const maxBatch = 10_000

// Batch decides requests in order.
func (a *API) Batch(ctx context.Context, r *weirv1.BatchRequest) (*weirv1.BatchResponse, error) {
	session, err := a.session(ctx)
	if err != nil {
		return nil, err
	}
	if n := len(r.GetRequests()); n > maxBatch {
		return nil, bad("a batch has at most %d requests", maxBatch)
	}
	b := batchjson.Batch{All: r.GetAll(), IDs: r.GetIds(), Requests: make([]decider.Request, len(r.GetRequests()))}
	for i, one := range r.GetRequests() {
		req := &b.Requests[i]
		if req.Key, err = a.parse(session, token.Decide, one.GetKey()); err != nil {
			return nil, err
		}
		if req.N, err = cost(one.N, 0); err != nil {
			return nil, err
		}
		if req.WantID = b.IDs && req.N > 0; one.GetAtMost() && req.N > 0 {
			b.AtMost = append(b.AtMost, batchjson.Partial{Index: i, N: req.N})
		}
	}
	if b.All && len(b.AtMost) > 0 {
		return nil, bad("all and at_most exclude each other")
	}
	leave, err := a.enter(ctx, connlimit.Deciding)
	if err != nil {
		return nil, err
	}
	defer leave()
	verdicts, partial := make([]decider.Verdict, len(b.Requests)), b.AtMost
	ok, err := atmost.DecideEach(ctx, a.decider, &b, verdicts)
	if err != nil {
		return nil, failed(ctx, err)
	}
	answer := &weirv1.BatchResponse{Ok: ok, Decisions: make([]*weirv1.Decision, len(verdicts))}
	for i := range verdicts {
		atMost := len(partial) > 0 && partial[0].Index == i
		if atMost {
			partial = partial[1:]
		}
		answer.Decisions[i] = a.decision(&b.Requests[i], &verdicts[i], atMost)
	}
	return answer, nil
}

// Settle reports the true cost of a grant.
func (a *API) Settle(ctx context.Context, r *weirv1.SettleRequest) (*weirv1.SettleResponse, error) {
	key, leave, err := a.admit(ctx, token.Decide, r.GetKey(), connlimit.Settling)
	if err != nil {
		return nil, err
	}
	defer leave()
	n, err := cost(&r.N, 0)
	if err != nil {
		return nil, err
	}
	done, err := a.decider.Settle(ctx, key, r.GetRequestId(), n)
	if err != nil {
		return nil, failed(ctx, err)
	}
	return &weirv1.SettleResponse{Was: int64(done.Was), Charged: int64(done.Charged)}, nil
}

// whole returns the answer about a verdict, with its quotas.
func (a *API) whole(req *decider.Request, v *decider.Verdict, atMost bool) *weirv1.Decision {
	d := a.decision(req, v, atMost)
	d.Quotas = quotas(v)
	return d
}

// decision returns the answer about a verdict.
func (a *API) decision(req *decider.Request, v *decider.Verdict, atMost bool) *weirv1.Decision {
	d := &weirv1.Decision{Ok: v.OK, Degraded: stepOf(v.Step), WaitedMs: millis(v.Waited), Place: int64(v.Place)}
	if !v.OK {
		d.Reason, d.RetryAfterMs = reasonOf(v.Reason), retryAfter(v.RetryAfter)
		if denied := v.Denied(); denied != nil {
			d.Rule = denied.Rule.Name
		}
		return d
	}
	if remaining, ok := v.Remaining(); ok {
		left := int64(remaining)
		d.Remaining = &left
	}
	if req.N > 0 && req.WantID {
		d.RequestId = string(a.decider.AppendGrantID(nil, v.Grant, req.Key))
	}
	if atMost {
		d.Granted = int64(req.N)
	}
	return d
}

// maxQuotas bounds the quotas of an answer, besides that of the rule that denied.
const maxQuotas = 16

// quotas returns what rules leave. It leaves out shadow rules, because a client that heeded them would distort the trial.
func quotas(v *decider.Verdict) (all []*weirv1.Quota) {
	denied := v.Denied()
	for i := range v.Answers {
		x := &v.Answers[i]
		if x.Rule.Shadow() || len(all) >= maxQuotas && x != denied {
			continue
		}
		all = append(all, &weirv1.Quota{Rule: x.Rule.Name, Limit: int64(x.Rule.Limit), Remaining: int64(x.Remaining), ResetAfterMs: orNever(x.ResetAfter)})
	}
	return all
}

// millis returns a time in milliseconds, rounded up.
func millis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// retryAfter returns when a request would be allowed; 0 if that is unknown, or never.
func retryAfter(d time.Duration) int64 {
	if d == weir.Never {
		return 0
	}
	return millis(d)
}

// orNever returns a time in milliseconds; -1 for never.
func orNever(d time.Duration) int64 {
	if d == weir.Never {
		return -1
	}
	return millis(d)
}
