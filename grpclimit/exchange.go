package grpclimit

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/internal/pacing"
)

// An exchange is one attempt of a call, and what it holds.
type exchange struct {
	outgoing.Attempt
	client *Client
	method string
	ended  bool
}

// admit waits for the pacing, the throttle and the limiter. The error is a refusal.
func (x *exchange) admit(ctx context.Context) error {
	c := x.client
	by, err := c.path.Admit(ctx, x.method, &x.Attempt)
	switch {
	case err == nil:
		c.counts.sent.Add(1)
		if x.Waited >= 0 {
			c.counts.waited.Add(1)
		}
		return nil
	case errors.Is(err, weir.ErrRejected):
		c.counts.refused[by].Add(1)
	default:
		c.counts.cancelled.Add(1)
	}
	return refusalOf(unnamed, err, 0)
}

// abort ends an attempt after a panic of its invoker.
func (x *exchange) abort() {
	if !x.ended {
		x.release(weir.Ignored)
	}
}

func (x *exchange) release(o weir.Outcome) {
	x.ended = true
	x.Throttle.Release(o)
	x.Limit.Release(o)
	x.client.counts.outcomes[o].Add(1)
}

// end counts the result of an attempt. If the server refused the call, it returns
// the server's advice about a retry.
func (x *exchange) end(ctx context.Context, err error, trailer metadata.MD) *retryAdvice {
	s := status.Convert(err)
	o := answered(ctx, s)
	defer x.release(o) // last: the next call must know the advice
	var advice *retryAdvice
	refused := turnedAway(s)
	if refused {
		advice = x.client.adviceOf(s, trailer)
	}
	x.pace(advice, refused || o != weir.Success && o != weir.Ignored)
	return advice
}

// pace reports an answer to the queue of the method.
func (x *exchange) pace(advice *retryAdvice, refused bool) {
	waits := advice != nil && advice.waits
	q := x.client.queue(x.method)
	if q == nil && waits && x.client.pacing.MaxHold >= 0 {
		q = x.client.addQueue(x.method)
	}
	if q == nil {
		return
	}
	a := pacing.Answer{Number: x.Number, Overload: refused}
	if waits {
		a.Waits, a.After, a.Busy, a.Refused = true, advice.wait, !advice.quota, advice.quota
	}
	q.Answer(&a)
}

// A retryAdvice holds the advice of a server that has refused a call. For a Retrier it
// is the error of the call.
type retryAdvice struct {
	quota    bool // the call was refused because of the client's quota, not of overload
	wait     time.Duration
	waits    bool // the server names a wait
	hopeless bool // no retry can succeed
}

func (*retryAdvice) Error() string   { return "refused by the server" }
func (a *retryAdvice) Unwrap() error { return weir.Reject(weir.OverRate, a.wait) }

// adviceOf returns the advice in an answer, nil if the answer does not show that
// the server refused the call rather than failed. The pushback takes precedence; a
// malformed pushback means, as a negative one, that no retry can succeed.
func (c *Client) adviceOf(s *status.Status, trailer metadata.MD) *retryAdvice {
	a := &retryAdvice{quota: s.Code() == codes.ResourceExhausted}
	pushback, reason := trailer[PushbackTrailer], trailer[ReasonTrailer]
	switch {
	case len(pushback) > 0:
		ms, err := strconv.ParseInt(pushback[0], 10, 32)
		if err != nil || ms < 0 || len(pushback) > 1 {
			a.hopeless = true
			break
		}
		a.wait, a.waits = time.Duration(ms)*time.Millisecond, true
	default:
		for _, d := range s.Details() {
			if info, ok := d.(*errdetails.RetryInfo); ok {
				a.wait, a.waits = info.GetRetryDelay().AsDuration(), true
			}
		}
		if !a.waits && len(reason) == 0 {
			return nil
		}
	}
	if len(reason) > 0 && reason[0] == weir.Throttled.String() {
		a.hopeless = true // a throttle behind the server refused it
	}
	a.wait = c.pacing.Hold(a.wait)
	return a
}

// retryable reports whether a call may be retried after an error.
func (c *Client) retryable(err error) bool {
	a, ok := err.(*retryAdvice)
	return ok && !a.hopeless && (c.pacing.MaxWait < 0 || a.wait <= c.pacing.MaxWait)
}
