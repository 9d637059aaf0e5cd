package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// lease takes a lease, and waits for it if canWait is set.
func (c *call) lease() {
	p := &c.params
	req := decider.LeaseRequest{Key: c.key, N: c.cost(), TTL: p.ttl, Wait: p.canWait}
	if req.N == 0 {
		c.fail(&fault{status: http.StatusBadRequest, text: "cannot read n: it must be at least 1 for a lease"})
		return
	}
	ctx, cancel, f := c.waitContext()
	if f != nil {
		c.fail(f)
		return
	}
	defer cancel()
	if req.Wait {
		c.suspendDeadline()
	}
	l, err := c.api.decider.Acquire(ctx, req)
	if req.Wait {
		c.restoreDeadline()
	}
	if err != nil {
		c.denyLease(err)
		return
	}
	c.sendLease(&l)
}

// denyLease answers a request that gets no lease.
func (c *call) denyLease(err error) {
	rejection, rejected := errors.AsType[*weir.Rejection](err)
	switch {
	case errors.Is(err, decider.ErrNoLeasing):
		c.fail(noLeasing)
		return
	case errors.Is(err, decider.ErrNoLease):
		c.fail(noLease)
		return
	case !rejected && !errors.Is(err, context.DeadlineExceeded), c.r.Context().Err() != nil && !rejected:
		c.failed()
		return
	}
	f := fault{
		status: http.StatusTooManyRequests, text: "concurrency limit reached", reason: weir.TooLate,
	}
	if rejected {
		f.reason, f.retryAfter = rejection.Reason, rejection.RetryAfter
	}
	if f.reason == weir.Closed {
		f.status, f.text = http.StatusServiceUnavailable, ending
	}
	c.fail(&f)
}

// renew extends a lease.
func (c *call) renew() {
	l, err := c.api.decider.Renew(c.r.Context(), c.key, c.id, c.params.ttl)
	if err != nil {
		c.denyLease(err)
		return
	}
	c.sendLease(&l)
}

// giveLeaseBack returns a lease.
func (c *call) giveLeaseBack() {
	outcome := weir.Success
	if c.params.valued&paramOutcome != 0 {
		outcome = c.params.outcome
	}
	if err := c.api.decider.Return(c.r.Context(), c.key, c.id, outcome); err != nil {
		c.denyLease(err)
		return
	}
	c.buf = append(c.buf[:0], "{}\n"...)
	c.send(http.StatusOK, jsonType)
}

// sendLease answers with a lease.
func (c *call) sendLease(l *decider.Lease) {
	b := append(c.buf[:0], `{"lease_id":`...)
	b = appendString(b, l.ID)
	b = append(b, `,"token":`...)
	b = strconv.AppendUint(b, l.Token, 10)
	b = append(b, `,"ttl_ms":`...)
	b = strconv.AppendInt(b, l.TTL.Milliseconds(), 10)
	b = append(b, `,"limit":`...)
	b = strconv.AppendInt(b, int64(l.Limit), 10)
	b = append(b, `,"inflight":`...)
	b = strconv.AppendInt(b, int64(l.Inflight), 10)
	b = append(b, `,"waited_ms":`...)
	b = appendMillis(b, l.Waited)
	c.buf = append(b, "}\n"...)
	c.send(http.StatusOK, jsonType)
}

// leases answers with the state of the leases of a key, under the rule with the
// least room.
func (c *call) leases() {
	var least *decider.LeaseState
	x, err := c.api.decider.Explain(c.r.Context(), c.key)
	if err != nil {
		c.failed()
		return
	}
	for i := range x.Rules {
		if l := x.Rules[i].Lease; l != nil && (least == nil || l.Limit-l.Inflight < least.Limit-least.Inflight) {
			least = l
		}
	}
	if least == nil {
		c.fail(noLeasing)
		return
	}
	b := append(c.buf[:0], `{"limit":`...)
	b = strconv.AppendInt(b, int64(least.Limit), 10)
	b = append(b, `,"inflight":`...)
	b = strconv.AppendInt(b, int64(least.Inflight), 10)
	b = append(b, `,"waiting":`...)
	b = strconv.AppendInt(b, int64(least.Waiting), 10)
	c.buf = append(b, "}\n"...)
	c.send(http.StatusOK, jsonType)
}
