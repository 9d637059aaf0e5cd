package origins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-go/weir/internal/httpheader"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/http1client"
)

// An Answer is the response of an origin, or an error instead of it, or a panic of the transport.
type Answer struct {
	Resp     *http.Response
	Err      error
	Panicked any
}

// errStatus says that an origin has answered with a status that HTTP does not have.
var errStatus = errors.New("the origin answered with an invalid status")

// An unsentError says that there was no connection for a request.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// A noAnswerError says that an origin with a connection has not answered, or not by the rules of HTTP.
type noAnswerError struct{ error }

func (e noAnswerError) Unwrap() error { return e.error }

// explained returns the error of a request, with what it follows from whether there was a connection for it.
func explained(err error, connected bool) error {
	switch {
	case err == nil:
		return nil
	case connected && !errors.Is(err, context.Canceled):
		return noAnswerError{err}
	case !connected:
		switch loadsign.OfError(err) {
		case loadsign.Unreachable, loadsign.Silent: // for a handshake of TLS, too
			return unsentError{err}
		}
	}
	return err
}

// Send sends a request to the origin. It returns a panic of the transport, for the goroutine of the handler. Connected
// tells whether there was a connection, if the transport is the proxy's own.
func (o *Origin) Send(req *http.Request, connected *atomic.Bool) (a Answer) {
	defer func() {
		if v := recover(); v != nil {
			a = Answer{Panicked: v}
		}
	}()
	if o.client != nil && isBrief(req) {
		a = answerOf(o.client.RoundTrip(req))
	} else {
		a = answerOf(o.transport.RoundTrip(req))
	}
	if o.own {
		a.Err = explained(a.Err, connected.Load())
	}
	return a
}

// An Informer takes the 1xx answers to a request.
type Informer interface {
	Pass(code int, header textproto.MIMEHeader) error
}

// Start starts a request on an idle connection, if it is brief and there is one. Otherwise it returns nil.
func (o *Origin) Start(req *http.Request, to Informer) *http1client.Call {
	if o.client == nil || !isBrief(req) {
		return nil
	}
	return o.client.Start(req, to.Pass)
}

// AnswerOf returns the answer of a call that Start has started.
func AnswerOf(resp *http.Response, err error) Answer { return answerOf(resp, explained(err, true)) }

// isBrief reports whether package http1client can carry a request: it asks for no upgrade, has no body or
// one in memory, and the kernel takes all of it, even if the origin does not read it.
func isBrief(req *http.Request) bool {
	if len(req.Header["Upgrade"]) > 0 || req.Body != nil && req.GetBody == nil {
		return false
	}
	size := req.ContentLength + int64(len(req.URL.Path)+len(req.URL.RawQuery))
	for name, values := range req.Header {
		for _, value := range values {
			size += int64(len(name) + len(value))
		}
	}
	return size <= 16<<10
}

// answerOf returns an answer with a status that an http.ResponseWriter takes: net/http accepts also
// those below 100, and over HTTP/2 those above 999.
func answerOf(resp *http.Response, err error) Answer {
	if err == nil && (resp.StatusCode < 100 || resp.StatusCode > 999) {
		_ = resp.Body.Close()
		return Answer{Err: fmt.Errorf("%w: %03d", errStatus, resp.StatusCode)}
	}
	return Answer{Resp: resp, Err: err}
}

// resultOf returns what an answer says about the health of its origin, and the time of its
// Retry-After, if it has one with 503.
func resultOf(a Answer, sign loadsign.Sign) (r balance.Result, after time.Duration) {
	switch {
	case a.Panicked != nil, a.Resp == nil && a.Err == nil:
		return balance.Unknown, 0
	case a.Err != nil && notSent(a.Err):
		return balance.Unreachable, 0
	case a.Err != nil && loadsign.OfError(a.Err) == loadsign.Silent:
		return balance.Silent, 0
	case a.Err != nil && brokenOff(a.Err):
		return balance.Failed, 0
	case a.Err != nil: // such as a request that the transport refuses to send
		return balance.Unknown, 0
	case sign == loadsign.Unavailable:
		after, _ = httpheader.RetryAfter(a.Resp.Header, time.Now())
		return balance.Failed, after
	case sign == loadsign.GatewayLate, a.Resp.StatusCode == http.StatusBadGateway, a.Resp.StatusCode == http.StatusInternalServerError:
		return balance.Failed, 0
	}
	return balance.Answered, 0
}

// notSent reports whether an error says that there was no connection for the request.
func notSent(err error) bool {
	switch loadsign.OfError(err) {
	case loadsign.Refused, loadsign.Unreachable:
		return true
	}
	return IsUnsent(err)
}

// IsUnsent reports whether an error says for sure that nothing of the request was sent.
func IsUnsent(err error) bool {
	if _, ok := errors.AsType[unsentError](err); ok {
		return true
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// brokenOff reports whether an error says that the origin closed the connection, or did not answer by the rules of HTTP.
func brokenOff(err error) bool {
	if _, ok := errors.AsType[noAnswerError](err); ok {
		return true
	}
	return errors.Is(err, errStatus) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// CanRepeat reports whether a request may be sent again after an error: the origin had no connection for it, or broke off.
func CanRepeat(failed error) bool {
	return notSent(failed) || brokenOff(failed) && !errors.Is(failed, errStatus)
}
