package forward

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/problem"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/tally"
)

// signOf returns the sign of load of an answer, by the table of package loadsign.
func signOf(a origins.Answer, u *upload) loadsign.Sign {
	switch {
	case a.Panicked != nil, u != nil && u.failedStatus.Load() != 0:
		return loadsign.None // a bug, or the client's fault
	case a.Err != nil:
		return loadsign.OfError(a.Err)
	}
	return loadsign.OfStatus(a.Resp.StatusCode)
}

// ErrDeadline is the cause with which the context of a request ends at its deadline.
var ErrDeadline = errors.New("the deadline of the request is over")

var (
	originLate    = problem.New(http.StatusGatewayTimeout, problem.Blank, "origin_timeout", "the origin did not answer in time")
	originFailed  = problem.New(http.StatusBadGateway, problem.Blank, "origin_failed", "the origin could not be reached or broke off")
	originRefused = problem.New(http.StatusBadGateway, problem.Blank, "origin_refused", "the origin refused the connection")
	originUnknown = problem.New(http.StatusBadGateway, problem.Blank, "origin_unreachable", "the origin has no address, there is no route to it, its Unix socket cannot be opened, or the TLS handshake failed")
	originHeld    = problem.New(http.StatusServiceUnavailable, problem.Blank, "origin_held", "the origin answers 503 to all requests, and asks for a pause")
	clientSlow    = problem.New(http.StatusRequestTimeout, problem.Blank, "client_timeout", "the request's body came too slowly")
	clientBroken  = problem.New(http.StatusBadRequest, problem.Blank, "client_failed", "the request's body broke off")
	bodyTooLarge  = problem.New(http.StatusRequestEntityTooLarge, problem.Blank, "too_large", "the request's body is larger than allowed")
	deadlineOver  = problem.New(http.StatusGatewayTimeout, problem.Blank, "deadline", "the request's deadline is over")
	clientGone    = problem.New(499, problem.Blank, "client_gone", "the client left before the origin answered")
)

// answerRejection answers a request that the limiter has rejected, or that has left
// the queue.
func answerRejection(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, weir.ErrRejected):
		httplimit.Reject(w, r, err)
	case context.Cause(r.Context()) == ErrDeadline:
		deadlineOver.Write(w, r, nil)
	default:
		clientGone.Write(w, r, nil)
	}
}

// answerFailure answers an admitted request that the origin did not answer.
func (f *forward) answerFailure(w http.ResponseWriter, r *http.Request, err error) {
	p, failed := f.forwarder, int32(0)
	if f.upload != nil {
		failed = f.upload.failedStatus.Load()
	}
	network, _ := errors.AsType[net.Error](err)
	var retryAfter []string
	answer := originFailed
	switch {
	case failed == http.StatusRequestTimeout:
		answer = clientSlow
	case failed == http.StatusRequestEntityTooLarge:
		answer = bodyTooLarge
		f.Class.Counts.CountTooLarge()
	case failed != 0:
		answer = clientBroken
	case errors.Is(err, errClientGone) && context.Cause(r.Context()) == ErrDeadline:
		answer = deadlineOver
	case errors.Is(err, errClientGone):
		answer = clientGone
	case errors.Is(err, errTimeout), network != nil && network.Timeout():
		answer = originLate
	case errors.Is(err, syscall.ECONNREFUSED):
		answer = originRefused
	case loadsign.OfError(err) == loadsign.Unreachable:
		answer = originUnknown
	}
	if held, ok := errors.AsType[origins.PauseError](err); ok {
		answer, retryAfter = originHeld, problem.RetryAfter(time.Duration(held))
	}
	if answer.Status >= 500 && answer != deadlineOver {
		p.cfg.Log.Debug("the origin failed", "reason", answer.Reason, "error", err)
		p.cfg.Observer.OriginFailed(answer.Reason, err)
	}
	f.upload.answerBegins(w.Header())
	answer.Write(w, r, retryAfter)
	f.upload.answerEnds(&f.Client)
}

// RefuseTooLarge answers a request with a body that is too large.
func RefuseTooLarge(w http.ResponseWriter, r *http.Request, c *tally.Counts) {
	c.CountTooLarge()
	if r.ProtoMajor == 1 { // the body is still on the connection
		w.Header().Set("Connection", "close")
	}
	bodyTooLarge.Write(w, r, nil)
}

// tooLarge reports whether an error says that a body is beyond its bound.
func tooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
