package httpclient

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/httpheader"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/problem"
	"github.com/weir-go/weir/internal/waitq"
)

// again retries the request after last, and returns the result. If ok is false, the
// request may not be retried, and last is the result.
func (t *Transport) again(h *host, r *http.Request, last *result, retry int) (next result, ok bool) {
	ctx := r.Context()
	if ctx.Err() != nil || !replayable(r) {
		return result{}, false
	}
	floor, ok := retryable(r, last, time.Now())
	if !ok {
		return result{}, false
	}
	wait := t.pacing.Hold(floor) + adaptive.Backoff(t.cfg.Retry.Backoff, t.cfg.Retry.MaxBackoff, retry, t.chance())
	if end, ends := ctx.Deadline(); ends && time.Until(end) <= wait || t.pacing.MaxWait >= 0 && wait > t.pacing.MaxWait {
		return result{}, false
	}
	if !h.budget.reserve() {
		t.counts.exhausted.Add(1)
		return result{}, false
	}
	next = t.retry(h, r, last, wait)
	if next.local {
		h.budget.settle(false)
		if ctx.Err() == nil {
			return result{}, false
		}
		discard(last.resp)
	}
	return next, true
}

// retry waits and sends the request again. The caller has reserved it in the
// budget. If it is sent, it spends the reservation and discards the last response.
// The permit of the last response is released before the wait, because the retry may
// need its unit.
func (t *Transport) retry(h *host, r *http.Request, last *result, wait time.Duration) result {
	if last.resp != nil {
		if b, ok := last.resp.Body.(interface{ finish() }); ok {
			b.finish()
		}
	}
	if !waitq.Sleep(r.Context(), wait) {
		return result{err: r.Context().Err(), local: true}
	}
	again, err := replay(r)
	if err != nil {
		return result{err: err, local: true}
	}
	return t.attempt(h, r, again, last)
}

// A budget is the retry budget of a host.
type budget struct {
	epoch time.Time

	mu   sync.Mutex // guards core
	core *adaptive.Budget
}

// request counts a first attempt.
func (b *budget) request() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.core.Request(time.Since(b.epoch))
}

// reserve sets a retry aside until it is settled, and reports whether the budget
// allows it.
func (b *budget) reserve() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.core.Reserve(time.Since(b.epoch))
}

// settle spends a reserved retry if it is sent, and otherwise gives it back.
func (b *budget) settle(sent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.core.Settle(time.Since(b.epoch), sent)
}

// replayable reports whether the body of a request can be sent again.
func replayable(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// replay returns the request with a fresh body.
func replay(r *http.Request) (*http.Request, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	b, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	r = r.WithContext(r.Context())
	r.Body = b
	return r, nil
}

// retryable reports whether a request may be retried after a result, and the wait
// that the server asks for.
func retryable(r *http.Request, last *result, now time.Time) (floor time.Duration, ok bool) {
	if last.err != nil {
		return 0, errors.Is(last.err, syscall.ECONNREFUSED) || idempotent(r) && disconnected(last.err)
	}
	status, header := last.resp.StatusCode, last.resp.Header
	if !turnedAway(status) {
		return 0, false
	}
	floor, waits := httpheader.RetryAfter(header, now)
	reason := header.Get(problem.ReasonHeader)
	undone := status == http.StatusTooManyRequests
	if undone || status == http.StatusServiceUnavailable {
		if reason != "" && (!waits || reason == weir.Throttled.String()) {
			return 0, false // weir omits Retry-After if no retry can succeed
		}
		undone = undone || reason != ""
	}
	return floor, undone || idempotent(r)
}

// turnedAway reports whether the host answers with the status to a request that may
// succeed later.
func turnedAway(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// idempotent reports whether a request may be processed twice (RFC 9110, section
// 9.2.2).
func idempotent(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return len(r.Header["Idempotency-Key"]) > 0 || len(r.Header["X-Idempotency-Key"]) > 0
}

// disconnected reports whether an error is a failure of the connection. An unknown
// name or a certificate that is not accepted is not: a retry would fail again.
func disconnected(err error) bool {
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op == "dial" || op.Op == "read" || op.Op == "write"
	}
	if _, ok := errors.AsType[streamError](err); ok {
		return true
	}
	return loadsign.OfError(err) == loadsign.Silent || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// A streamError has the fields of the error of an HTTP/2 stream in net/http, which
// is not exported: its As method fills any struct with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "httpclient: stream error" }
