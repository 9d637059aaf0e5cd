package httplimit

import (
	"context"
	"errors"
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/problem"
)

// ReasonHeader is the response header that says why a request was refused.
const ReasonHeader = "Weir-Reason"

// Reject answers a request that was refused because of err: a *weir.Rejection, or
// the error of the request's context. The body is a problem of RFC 9457, or a page
// for a client that prefers HTML. The response is not cacheable. It has a
// Retry-After unless a retry is useless.
//
//   - 429: the client exceeds a quota (OverRate, OverBurst; OverLimit if a Rule refused it),
//   - 503: the server is overloaded or closed (all other rejections),
//   - 504: the deadline has passed,
//   - 408, 400: the client sent its body too slowly, or not completely,
//   - 413: the body is larger than an http.MaxBytesReader in front allows,
//   - 499: the client has left,
//   - 500: any other error.
func Reject(w http.ResponseWriter, r *http.Request, err error) {
	rejection := admission.Rejection(err)
	var again []string
	if rejection != nil {
		again = problem.RetryAfter(rejection.RetryAfter)
	}
	rejections.find(err, rejection).Write(w, r, again)
}

// answers holds the response for each Reason; index 0 is for unknown ones.
type answers [weir.Recovering + 1]*problem.Problem

// find returns the response for an error, and for the Rejection that it is, if
// any.
func (a *answers) find(err error, rejection *weir.Rejection) *problem.Problem {
	switch {
	case err == errLongLived:
		return longLived
	case rejection != nil && int(rejection.Reason) < len(a):
		return a[rejection.Reason]
	case rejection != nil:
		return a[0]
	case errors.Is(err, errSlowBody):
		return slowBody
	case errors.Is(err, errLargeBody):
		return largeBody
	case errors.Is(err, errBody):
		return brokenBody
	case errors.Is(err, context.DeadlineExceeded):
		return late
	case errors.Is(err, context.Canceled):
		return gone
	}
	return failed
}

// rejections holds the responses that name no rule.
var rejections = newAnswers()

func newAnswers(rule ...string) *answers {
	overQuota := func(why weir.Reason, detail string) *problem.Problem {
		return problem.New(http.StatusTooManyRequests, problem.QuotaExceeded, why.String(), detail, rule...)
	}
	overLimit := unavailable(weir.OverLimit, "as many requests are in flight as can be served")
	if len(rule) > 0 { // a quota of the client
		overLimit = overQuota(weir.OverLimit, "more requests in flight than allowed")
	}
	return &answers{
		0:               unavailable(0, "the request was refused"),
		weir.OverRate:   overQuota(weir.OverRate, "more requests than allowed"),
		weir.OverLimit:  overLimit,
		weir.QueueFull:  unavailable(weir.QueueFull, "as many requests are in flight as can be served, and the queue is full"),
		weir.Overdue:    unavailable(weir.Overdue, "the request waited in the queue for too long"),
		weir.TooLate:    unavailable(weir.TooLate, "the answer would have come after the request's deadline"),
		weir.Closed:     unavailable(weir.Closed, "no more requests are served"),
		weir.OverBurst:  overQuota(weir.OverBurst, "the request costs more than is ever allowed"),
		weir.Throttled:  unavailable(weir.Throttled, "too many requests have failed recently"),
		weir.Recovering: unavailable(weir.Recovering, "no leases are granted for a while after a crash"),
	}
}

var (
	slowBody   = problem.New(http.StatusRequestTimeout, problem.Blank, "client_timeout", "the request's body came too slowly")
	largeBody  = problem.New(http.StatusRequestEntityTooLarge, problem.Blank, "too_large", "the request's body is too large")
	brokenBody = problem.New(http.StatusBadRequest, problem.Blank, "client_failed", "the request's body broke off")
	longLived  = problem.New(http.StatusServiceUnavailable, problem.ReducedCapacity, "long_lived", "as many streams and other long-lived requests are in progress as allowed")
	late       = problem.New(http.StatusGatewayTimeout, problem.Blank, "timeout", "there was no answer in time")
	gone       = problem.New(499, problem.Blank, "client_gone", "the client left before the answer")
	failed     = problem.New(http.StatusInternalServerError, problem.Blank, "failed", "the request failed")
)

func unavailable(why weir.Reason, detail string) *problem.Problem {
	reason := why.String()
	if reason == "" {
		reason = "unknown"
	}
	return problem.New(http.StatusServiceUnavailable, problem.ReducedCapacity, reason, detail)
}
