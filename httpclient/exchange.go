package httpclient

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/httpheader"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/internal/pacing"
	"github.com/weir-go/weir/internal/problem"
	"github.com/weir-go/weir/internal/ratelimitfield"
)

// An exchange is one attempt of a request. It belongs to one goroutine.
type exchange struct {
	outgoing.Attempt
	h   *host
	ctx context.Context
}

// abort releases the permits after a panic of Base.
func (x *exchange) abort() {
	x.Throttle.Release(weir.Ignored)
	x.Limit.Release(weir.Ignored)
}

// failed ends an exchange without a response.
func (x *exchange) failed(err error) {
	outcome := loadsign.OfError(err).Unseen(x.ctx.Err())
	if x.ctx.Err() != nil && errors.Is(err, x.ctx.Err()) {
		outcome = loadsign.None.Unseen(x.ctx.Err()) // the context has ended, the host has not failed
	}
	if outcome == weir.Ignored && disconnected(err) {
		x.Throttle.Release(weir.Dropped) // a sign for the throttle, but not for the limit
	}
	x.Throttle.Release(outcome)
	x.Limit.Release(outcome)
}

// answered ends an exchange with a response. It reports the outcome to the limiter, and
// keeps the permit until the body ends.
func (x *exchange) answered(resp *http.Response) {
	sign := loadsign.OfStatus(resp.StatusCode)
	if resp.StatusCode == http.StatusBadGateway {
		x.Throttle.Release(weir.Dropped) // for the throttle, like a broken connection
	}
	x.Throttle.Release(sign.Outcome())
	if x.h.queue != nil && !fromCache(resp.Header) {
		x.hear(resp)
	}
	if x.h.path.Limiter == nil || resp.Body == nil || resp.Body == http.NoBody {
		x.Limit.Release(sign.Outcome())
		return
	}
	x.Limit.Report(sign.Outcome())
	x.h.users.Add(1)
	b := &heldBody{ReadCloser: resp.Body, ctx: x.ctx, sign: sign, permit: x.Limit.Move(), h: x.h}
	b.watch(resp.StatusCode)
	resp.Body = b.as(resp.Body)
}

// shed reports whether a 503 is about this request, and not about the whole host: weir has
// refused it because the limit of its route is used up.
func shed(h http.Header) bool {
	switch h.Get(problem.ReasonHeader) {
	case weir.OverLimit.String(), weir.QueueFull.String(), weir.Overdue.String(), weir.TooLate.String():
		return true
	}
	return false
}

// hear tells the queue about a response.
func (x *exchange) hear(resp *http.Response) {
	a := pacing.Answer{
		Number:   x.Number,
		Overload: turnedAway(resp.StatusCode),
		Busy:     resp.StatusCode == http.StatusServiceUnavailable && !shed(resp.Header),
		Refused:  resp.StatusCode == http.StatusTooManyRequests,
		Limits:   ratelimitfield.Limits(resp.Header, func() time.Time { return httpheader.Date(resp.Header, time.Now()) }),
		Policy:   ratelimitfield.PolicyLines(resp.Header),
	}
	if a.Busy || a.Refused {
		a.After, a.Waits = httpheader.RetryAfter(resp.Header, time.Now())
	}
	x.h.queue.Answer(&a)
}
