package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir"
)

// ReasonHeader tells a client why its request was not answered by a handler.
const ReasonHeader = "Weir-Reason"

// Reject answers a request that was not let in, for the reason err: a
// *weir.Rejection, or what its context said. The body is a problem of RFC 9457,
// nobody may keep the answer, and Retry-After is there unless waiting is in
// vain.
//
//   - 429: more than this client may ask for (OverRate, OverBurst),
//   - 503: more than can be done now (all other rejections),
//   - 504: the deadline has passed,
//   - 499: the client has left,
//   - 500: any other error.
func Reject(w http.ResponseWriter, r *http.Request, err error) {
	rejection, ok := errors.AsType[*weir.Rejection](err)
	switch {
	case ok:
		p := rejections[0]
		if int(rejection.Reason) < len(rejections) {
			p = rejections[rejection.Reason]
		}
		p.write(w, r, retryAfter(rejection.RetryAfter))
	case errors.Is(err, context.DeadlineExceeded):
		late.write(w, r, "")
	case errors.Is(err, context.Canceled):
		gone.write(w, r, "")
	default:
		broken.write(w, r, "")
	}
}

// retryAfter returns whole seconds: one at least, and none for never.
func retryAfter(d time.Duration) string {
	if d == weir.Never {
		return ""
	}
	s := d / time.Second
	if d%time.Second > 0 {
		s++
	}
	return strconv.FormatInt(int64(max(s, 1)), 10)
}

const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	blank           = "about:blank" // the status says all
)

// rejections are the answers to reasons; the first to one that is unknown.
var rejections = [...]*problem{
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

var (
	late   = newProblem(http.StatusGatewayTimeout, blank, "timeout", "there was no answer in time")
	gone   = newProblem(499, blank, "client_gone", "the client left before the answer")
	broken = newProblem(http.StatusInternalServerError, blank, "failed", "the answer broke off")
)

func overQuota(why weir.Reason, detail string) *problem {
	return newProblem(http.StatusTooManyRequests, quotaExceeded, why.String(), detail)
}

func unavailable(why weir.Reason, detail string) *problem {
	return newProblem(http.StatusServiceUnavailable, reducedCapacity, why.String(), detail)
}

// A problem is an answer rendered beforehand: to refuse formats next to nothing.
type problem struct {
	status int
	reason string
	body   []byte
	length string
}

func newProblem(status int, kind, reason, detail string) *problem {
	if reason == "" {
		reason = "unknown"
	}
	body := fmt.Sprintf(`{"type":%q,"title":%q,"status":%d,"detail":%q,"reason":%q}`+"\n",
		kind, http.StatusText(status), status, detail, reason)
	return &problem{status: status, reason: reason, body: []byte(body), length: strconv.Itoa(len(body))}
}

func (p *problem) write(w http.ResponseWriter, r *http.Request, retryAfter string) {
	h := w.Header()
	values := []string{"application/problem+json", "no-store", p.reason, p.length, retryAfter}
	h["Content-Type"] = values[0:1:1]
	h["Cache-Control"] = values[1:2:2]
	h[ReasonHeader] = values[2:3:3]
	h["Content-Length"] = values[3:4:4]
	if retryAfter != "" {
		h["Retry-After"] = values[4:5:5]
	}
	w.WriteHeader(p.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(p.body) // a client that is gone needs no answer
	}
}
