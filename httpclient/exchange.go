package httpclient

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/pacing"
	"github.com/weir-go/weir/internal/ratelimitfield"
)

// An exchange is one attempt of a request, and the permits that it holds. It belongs
// to one goroutine.
type exchange struct {
	t   *Transport
	h   *host
	ctx context.Context

	number   uint64 // in the queue of the host
	throttle weir.Permit
	limit    weir.Permit
}

// admit waits for the queue, the throttle and the limiter. If one of them refuses
// the request, the others get back what they gave. If the host asks for a wait while
// the request waits for its unit of the limiter, the request gives the unit back
// and waits in the queue again.
func (x *exchange) admit() (err error) {
	if err = x.wait(); err != nil {
		return err
	}
	if x.h.throttle != nil {
		if x.throttle, err = x.h.throttle.Acquire(x.ctx, 1); err != nil {
			x.unsend()
			x.t.throttled(x.h, err)
			return err
		}
	}
	for x.h.limit != nil {
		if x.limit, err = x.h.limit.Acquire(x.ctx, 1); err != nil {
			x.unsend()
			unused(&x.throttle)
			x.t.limited(x.h, err)
			return err
		}
		if x.h.queue == nil || x.h.queue.Renew(&x.number) {
			return nil
		}
		unused(&x.limit)
		if err = x.wait(); err != nil {
			unused(&x.throttle)
			return err
		}
	}
	return nil
}

// wait waits in the queue of the host.
func (x *exchange) wait() (err error) {
	if x.h.queue == nil {
		return nil
	}
	var waited time.Duration
	x.number, waited, err = x.h.queue.Wait(x.ctx)
	x.t.paced(x.h, waited, err)
	return err
}

// unused releases the permit of work that has not begun.
func unused(p *weir.Permit) {
	p.Use(0)
	p.Release(weir.Ignored)
}

func (x *exchange) unsend() {
	if x.h.queue != nil {
		x.h.queue.Cancel(x.number)
	}
}

// abort releases the permits after a panic of Base.
func (x *exchange) abort() {
	x.throttle.Release(weir.Ignored)
	x.limit.Release(weir.Ignored)
}

// failed ends an exchange without a response.
func (x *exchange) failed(err error) {
	outcome := loadsign.OfError(err).Unseen(x.ctx.Err())
	if x.ctx.Err() != nil && errors.Is(err, x.ctx.Err()) {
		outcome = loadsign.None.Unseen(x.ctx.Err()) // the context has ended, the host has not failed
	}
	if outcome == weir.Ignored && disconnected(err) {
		x.throttle.Release(weir.Dropped) // a sign for the throttle, but not for the limit
	}
	x.throttle.Release(outcome)
	x.limit.Release(outcome)
}

// answered ends an exchange with a response. It reports the outcome to the limiter, and
// keeps the permit until the body ends.
func (x *exchange) answered(resp *http.Response) {
	sign := loadsign.OfStatus(resp.StatusCode)
	if resp.StatusCode == http.StatusBadGateway {
		x.throttle.Release(weir.Dropped) // for the throttle, like a broken connection
	}
	x.throttle.Release(sign.Outcome())
	if x.h.queue != nil && !fromCache(resp.Header) {
		x.hear(resp)
	}
	if x.h.limit == nil || resp.Body == nil || resp.Body == http.NoBody {
		x.limit.Release(sign.Outcome())
		return
	}
	x.limit.Report(sign.Outcome())
	x.t.retain(x.h)
	b := &heldBody{ReadCloser: resp.Body, ctx: x.ctx, sign: sign, permit: x.limit, t: x.t, h: x.h}
	x.limit = weir.Permit{}
	b.watch(resp.StatusCode)
	resp.Body = b.as(resp.Body)
}

// hear tells the queue about a response.
func (x *exchange) hear(resp *http.Response) {
	a := pacing.Answer{
		Number:   x.number,
		Overload: turnedAway(resp.StatusCode),
		Busy:     resp.StatusCode == http.StatusServiceUnavailable,
		Refused:  resp.StatusCode == http.StatusTooManyRequests,
		Limits:   ratelimitfield.ParseLimits(resp.Header["Ratelimit"]),
		Policy:   resp.Header["Ratelimit-Policy"],
	}
	if a.Busy || a.Refused {
		a.After, a.Waits = parseRetryAfter(resp.Header, time.Now())
	}
	x.h.queue.Answer(&a)
}
