package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/weir-go/weir"
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
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway,
		code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
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
const ReasonHeader = "Weir-Reason"

// A problem is an RFC 9457 answer of the proxy's own, rendered beforehand: to
// refuse formats nothing.
type problem struct {
	status     int
	reason     []string // as a header's value
	retryAfter []string
	body       []byte
}

func newProblem(status int, kind, reason, detail string) *problem {
	body := fmt.Sprintf(`{"type":%q,"title":%q,"status":%d,"detail":%q,"reason":%q}`+"\n",
		kind, http.StatusText(status), status, detail, reason)
	return &problem{status: status, reason: []string{reason}, body: []byte(body)}
}

func newRejection(reason weir.Reason, detail string) *problem {
	const kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	p := newProblem(http.StatusServiceUnavailable, kind, reason.String(), detail)
	p.retryAfter = []string{"1"} // seconds
	return p
}

const blank = "about:blank" // the status says all

// rejections are the answers to the limiter's reasons to reject.
var rejections = map[weir.Reason]*problem{
	weir.OverLimit: newRejection(weir.OverLimit, "as many requests are in flight as the origin can bear"),
	weir.QueueFull: newRejection(weir.QueueFull, "as many requests are in flight as the origin can bear, and as many wait as may"),
	weir.Overdue:   newRejection(weir.Overdue, "the origin was at its limit for as long as a request may wait"),
	weir.TooLate:   newRejection(weir.TooLate, "the answer would have come after the request's deadline"),
}

var (
	originLate    = newProblem(http.StatusGatewayTimeout, blank, "origin_timeout", "the origin did not answer in time")
	originFailed  = newProblem(http.StatusBadGateway, blank, "origin_failed", "the origin could not be reached or broke off")
	originRefused = newProblem(http.StatusBadGateway, blank, "origin_refused", "the origin refused the connection")
	clientSlow    = newProblem(http.StatusRequestTimeout, blank, "client_timeout", "the request's body came too slowly")
	clientBroken  = newProblem(http.StatusBadRequest, blank, "client_failed", "the request's body broke off")
	clientGone    = newProblem(499, blank, "client_gone", "the client left before the origin answered")
)

// reject answers a request that was not let through.
func (p *Proxy) reject(w http.ResponseWriter, err error) {
	r, ok := errors.AsType[*weir.Rejection](err)
	if !ok {
		clientGone.write(w) // while it waited
		return
	}
	rejections[r.Reason].write(w) // inflight gives no others
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
	if answer.status >= 500 {
		p.log.Debug("the origin failed", "reason", answer.reason[0], "error", err)
		p.metrics.originErrors.WithLabelValues(answer.reason[0]).Inc()
	}
	answer.write(w)
}

var problemJSON = []string{"application/problem+json"}

func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = problemJSON
	h[ReasonHeader] = p.reason
	if p.retryAfter != nil {
		h["Retry-After"] = p.retryAfter
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(p.body) // a client that is gone needs no answer
}
