package proxy

import (
	"errors"
	"net"
	"net/http"
	"syscall"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/problem"
)

// outcomeOf says what an answer, or the lack of one, tells about load. Only
// what overload looks like is Dropped. A 4xx is an answer that cost the origin
// less than the real thing, so nothing is learnt from it.
func outcomeOf(a answer, u *upload) weir.Outcome {
	switch {
	case u != nil && u.failed.Load() != 0:
		return weir.Ignored // the client's fault
	case a.err != nil:
		if timeout(a.err) || errors.Is(a.err, syscall.ECONNREFUSED) {
			return weir.Dropped
		}
		return weir.Ignored
	}
	switch code := a.resp.StatusCode; {
	case problem.Overload(code):
		return weir.Dropped
	case code < 400:
		return weir.Success
	default:
		return weir.Ignored
	}
}

func timeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// ReasonHeader tells a client why the proxy itself answered. The origin's
// own answers pass without it.
const ReasonHeader = problem.ReasonHeader

var (
	originLate    = problem.New(http.StatusGatewayTimeout, problem.Blank, "origin_timeout", "the origin did not answer in time")
	originFailed  = problem.New(http.StatusBadGateway, problem.Blank, "origin_failed", "the origin could not be reached or broke off")
	originRefused = problem.New(http.StatusBadGateway, problem.Blank, "origin_refused", "the origin refused the connection")
	clientSlow    = problem.New(http.StatusRequestTimeout, problem.Blank, "client_timeout", "the request's body came too slowly")
	clientBroken  = problem.New(http.StatusBadRequest, problem.Blank, "client_failed", "the request's body broke off")
	clientGone    = problem.New(499, problem.Blank, "client_gone", "the client left before the origin answered")
)

// reject answers a request that was not let through. A limiter rejects it, or
// the client left while it waited.
func reject(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, weir.ErrRejected) {
		httplimit.Reject(w, r, err)
	} else {
		clientGone.Write(w, r, nil)
	}
}

// fail answers a request that was let through, but not answered by the origin.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := r.Context().Value(exchangeKey{}).(*exchange)
	failed := int32(0)
	if x.upload != nil {
		failed = x.upload.failed.Load()
	}
	answer := originFailed
	switch {
	case failed == http.StatusRequestTimeout:
		answer = clientSlow
	case failed != 0:
		answer = clientBroken
	case errors.Is(err, errClientGone):
		answer = clientGone
	case errors.Is(err, errTimeout), timeout(err):
		answer = originLate
	case errors.Is(err, syscall.ECONNREFUSED):
		answer = originRefused
	}
	if answer.Status >= 500 {
		p.log.Debug("the origin failed", "reason", answer.Reason, "error", err)
		p.metrics.originErrors.WithLabelValues(answer.Reason).Inc()
	}
	answer.Write(w, r, nil)
}
