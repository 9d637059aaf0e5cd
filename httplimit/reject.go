package httplimit

import (
	"context"
	"errors"
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/problem"
)

// ReasonHeader tells a client why its request was not answered by a handler.
const ReasonHeader = problem.ReasonHeader

// Reject answers a request that was not let in, for the reason err: a
// *weir.Rejection, or what its context said. The body is a problem of RFC 9457,
// or a page for a client that would rather have HTML. Nobody may keep the
// answer, and Retry-After is there unless waiting is in vain.
//
//   - 429: more than this client may ask for (OverRate, OverBurst),
//   - 503: more than can be done now (all other rejections),
//   - 504: the deadline has passed,
//   - 408, 400: the client did not send the body, or broke it off,
//   - 413: the body is larger than an http.MaxBytesReader in front allows,
//   - 499: the client has left,
//   - 500: any other error.
func Reject(w http.ResponseWriter, r *http.Request, err error) {
	rejection := rejectionOf(err)
	var again []string
	if rejection != nil {
		again = problem.RetryAfter(rejection.RetryAfter)
	}
	rejections.of(err, rejection).Write(w, r, again)
}

// rejectionOf returns the Rejection that an error is, or nil.
func rejectionOf(err error) *weir.Rejection {
	if r, ok := err.(*weir.Rejection); ok { // as a rule, and errors.As is slow
		return r
	}
	r, _ := errors.AsType[*weir.Rejection](err)
	return r
}

// answers are those to reasons; the first to one that is unknown.
type answers [weir.Throttled + 1]*problem.Problem

// of returns the answer to an error, and to the Rejection that it is, if any.
func (a *answers) of(err error, rejection *weir.Rejection) *problem.Problem {
	switch {
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
	return broken
}

// rejections are the answers where no rule is to be named.
var rejections = newAnswers()

func newAnswers(violated ...string) *answers {
	overQuota := func(why weir.Reason, detail string) *problem.Problem {
		return problem.New(http.StatusTooManyRequests, problem.QuotaExceeded, why.String(), detail, violated...)
	}
	return &answers{
		0:              unavailable(0, "the request was refused"),
		weir.OverRate:  overQuota(weir.OverRate, "more requests than allowed"),
		weir.OverLimit: unavailable(weir.OverLimit, "as many requests are in flight as can be served"),
		weir.QueueFull: unavailable(weir.QueueFull, "as many requests are in flight as can be served, and as many wait as may"),
		weir.Overdue:   unavailable(weir.Overdue, "the request waited for as long as it may"),
		weir.TooLate:   unavailable(weir.TooLate, "the answer would have come after the request's deadline"),
		weir.Closed:    unavailable(weir.Closed, "no more requests are served"),
		weir.OverBurst: overQuota(weir.OverBurst, "the request costs more than is ever allowed"),
		weir.Throttled: unavailable(weir.Throttled, "too many requests have failed of late"),
	}
}

var (
	slowBody   = problem.New(http.StatusRequestTimeout, problem.Blank, "client_timeout", "the request's body came too slowly")
	largeBody  = problem.New(http.StatusRequestEntityTooLarge, problem.Blank, "too_large", "the request's body is too large")
	brokenBody = problem.New(http.StatusBadRequest, problem.Blank, "client_failed", "the request's body broke off")
	late       = problem.New(http.StatusGatewayTimeout, problem.Blank, "timeout", "there was no answer in time")
	gone       = problem.New(499, problem.Blank, "client_gone", "the client left before the answer")
	broken     = problem.New(http.StatusInternalServerError, problem.Blank, "failed", "the answer broke off")
)

func unavailable(why weir.Reason, detail string) *problem.Problem {
	reason := why.String()
	if reason == "" {
		reason = "unknown"
	}
	return problem.New(http.StatusServiceUnavailable, problem.ReducedCapacity, reason, detail)
}
