package httpapi

import (
	"context"
	"errors"
	"strings"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/httpapi/query"
	"github.com/weir-go/weir/service/internal/transport/wirejson/jsontext"
)

// lease takes a lease, and waits for it if canWait is set.
func (c *call) lease() *fault {
	req := decider.LeaseRequest{Key: strings.Clone(c.key), N: c.cost(), TTL: c.params.TTL, Wait: c.params.CanWait}
	if req.N == 0 {
		return bad("cannot read n: it must be at least 1 for a lease")
	}
	ctx, cancel, f := c.waitContext()
	if f != nil {
		return f
	}
	defer cancel()
	if req.Wait {
		c.suspendDeadline()
	}
	l, err := c.api.decider.Acquire(ctx, req)
	if req.Wait {
		c.restoreDeadline()
	}
	return c.sendLease(l, err)
}

// noLeaseFault returns the fault of a request that gets no lease.
func (c *call) noLeaseFault(err error, step decider.Step) *fault {
	const text = "concurrency limit reached"
	rejection, rejected := errors.AsType[*weir.Rejection](err)
	switch {
	case rejected && rejection.Reason == weir.Recovering:
		return c.deny("no leases are granted for a while after a crash", rejection.Reason, rejection.RetryAfter, step)
	case rejected:
		return c.deny(text, rejection.Reason, rejection.RetryAfter, step)
	case errors.Is(err, decider.ErrNoLeasing):
		return noLeasing
	case errors.Is(err, decider.ErrNoLease):
		return noLease
	case errors.Is(err, context.DeadlineExceeded) && c.r.Context().Err() == nil:
		return c.deny(text, weir.TooLate, 0, step)
	}
	return c.failed()
}

// renew extends a lease.
func (c *call) renew() *fault {
	return c.sendLease(c.api.decider.Renew(c.r.Context(), c.key, c.id, c.params.TTL))
}

// giveLeaseBack returns a lease.
func (c *call) giveLeaseBack() *fault {
	outcome := weir.Success
	if c.params.Valued&query.Outcome != 0 {
		outcome = c.params.Outcome
	}
	if err := c.api.decider.Return(c.r.Context(), c.key, c.id, outcome); err != nil {
		return c.noLeaseFault(err, decider.Exact)
	}
	return c.sendObject(append(c.buf[:0], '{'))
}

// sendLease answers with a lease, unless there is an error.
func (c *call) sendLease(l decider.Lease, err error) *fault {
	c.writeStep(l.Step)
	if err != nil {
		return c.noLeaseFault(err, l.Step)
	}
	if c.traits().text {
		return c.sendText(append(c.buf[:0], l.ID...))
	}
	b := jsontext.AppendText(c.buf[:0], `{"lease_id":`, l.ID)
	b = jsontext.AppendInt(b, `,"token":`, l.Token)
	b = jsontext.AppendInt(b, `,"ttl_ms":`, l.TTL.Milliseconds())
	b = jsontext.AppendInt(b, `,"limit":`, l.Limit)
	b = jsontext.AppendInt(b, `,"inflight":`, l.Inflight)
	b = jsontext.AppendMillis(b, `,"waited_ms":`, l.Waited)
	return c.sendObject(b)
}

// leases answers with the state of a key's leases, under the rule with the least room.
func (c *call) leases() *fault {
	x, err := c.api.decider.Explain(c.r.Context(), c.key)
	if err != nil {
		return c.failed()
	}
	var least *decider.LeaseState
	for i := range x.Rules {
		if l := x.Rules[i].Lease; l != nil && (least == nil || l.Limit-l.Inflight < least.Limit-least.Inflight) {
			least = l
		}
	}
	if least == nil {
		return noLeasing
	}
	b := jsontext.AppendInt(c.buf[:0], `{"limit":`, least.Limit)
	b = jsontext.AppendInt(b, `,"inflight":`, least.Inflight)
	b = jsontext.AppendInt(b, `,"waiting":`, least.Waiting)
	return c.sendObject(b)
}
