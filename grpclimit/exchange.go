package grpclimit

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outgoing"
)

// An exchange is one attempt of a call, and what it holds.
type exchange struct {
	client *Client
	method string
	pass   outgoing.Pass

	throttle weir.Permit
	limit    weir.Permit
	ended    bool
}

// admit asks all that have to agree: pace, throttle, limit. If one refuses, what
// the others gave is given back, and the error is a refusal.
func (c *Client) admit(ctx context.Context, method string) (x exchange, err error) {
	x = exchange{client: c, method: method}
	if err = x.pace(ctx); err != nil {
		return x, err
	}
	if c.throttle != nil {
		if x.throttle, err = c.throttle.Acquire(ctx, 1); err != nil {
			return x, c.refuse(outgoing.Throttle, err)
		}
	}
	if c.cfg.Limiter != nil {
		if err = x.acquire(ctx); err != nil {
			x.throttle.Use(0)
			x.throttle.Release(weir.Ignored)
			return x, err
		}
	}
	c.counts.Sent(x.pass)
	return x, nil
}

// pace waits until the server wants to be asked.
func (x *exchange) pace(ctx context.Context) error {
	h := x.client.hold(x.method)
	if h == nil {
		return nil
	}
	pass, err := h.Wait(ctx)
	if err != nil {
		return x.client.refuse(outgoing.Pace, err)
	}
	x.pass.Paced, x.pass.Waited = pass.Paced, x.pass.Waited || pass.Waited
	return nil
}

// acquire asks the limiter. While that lets it wait, the server may have said that
// it wants to be left alone: then it waits for that again, without a unit.
func (x *exchange) acquire(ctx context.Context) (err error) {
	for {
		if x.limit, err = x.client.cfg.Limiter.Acquire(ctx, 1); err != nil {
			return x.client.refuse(outgoing.Limit, err)
		}
		if h := x.client.hold(x.method); h == nil || !h.Holds() {
			return nil
		}
		x.limit.Use(0)
		x.limit.Release(weir.Ignored)
		if err = x.pace(ctx); err != nil {
			return err
		}
	}
}

// refuse counts a call that is kept back, and says why.
func (c *Client) refuse(by outgoing.Refuser, err error) error {
	c.counts.Refused(by, err)
	return refusalOf(unnamed, err, 0)
}

// abort ends an attempt whose invoker has panicked.
func (x *exchange) abort() {
	if !x.ended {
		x.release(weir.Ignored)
	}
}

func (x *exchange) release(o weir.Outcome) {
	x.ended = true
	x.throttle.Release(o)
	x.limit.Release(o)
	x.client.counts.Ended(o)
}

// end takes in how an attempt ended, and returns what the server said of when to
// come back, if it did.
func (x *exchange) end(ctx context.Context, err error, trailer metadata.MD) *said {
	s := status.Convert(err)
	o := answered(ctx, s)
	defer x.release(o) // who has the unit next must know what was said
	if !turnedAway(s) {
		if h := x.client.hold(x.method); h != nil && (o == weir.Success || o == weir.Ignored) {
			h.Good(x.pass)
		}
		return nil
	}
	a := hear(s, trailer)
	if a == nil {
		return nil
	}
	if a.waits && !x.client.cfg.NoPace {
		if h := x.client.addHold(x.method); h != nil {
			why := weir.Throttled
			if a.quota {
				why = weir.OverRate
			}
			h.Heed(why, a.wait)
		}
	}
	return a
}

// A said is what a server says of a call that it refused. To a Retrier it is an
// error.
type said struct {
	quota bool // it is of this client; if not, of the server
	wait  time.Duration
	waits bool // it names a wait
	vain  bool // to call again is
	why   *weir.Rejection
}

func (*said) Error() string   { return "refused by the server" }
func (s *said) Unwrap() error { return s.why }

// hear returns what a server says of a call that it refused, or nil if nothing
// shows that it refused, rather than failed. The pushback wins, and one that is
// malformed is as a negative one: in vain.
func hear(s *status.Status, trailer metadata.MD) *said {
	a := &said{quota: s.Code() == codes.ResourceExhausted}
	pushback, words := trailer[PushbackTrailer], trailer[ReasonTrailer]
	switch {
	case len(pushback) > 0:
		ms, err := strconv.ParseInt(pushback[0], 10, 32)
		if err != nil || ms < 0 || len(pushback) > 1 {
			a.vain = true
			break
		}
		a.wait, a.waits = time.Duration(ms)*time.Millisecond, true
	default:
		for _, d := range s.Details() {
			if info, ok := d.(*errdetails.RetryInfo); ok {
				a.wait, a.waits = info.GetRetryDelay().AsDuration(), true
			}
		}
		if !a.waits && len(words) == 0 {
			return nil
		}
	}
	if len(words) > 0 && words[0] == weir.Throttled.String() {
		a.vain = true // it was kept back further down
	}
	a.why = weir.Reject(weir.OverRate, a.wait)
	return a
}

// retryable reports whether a call may be sent again after an error.
func (c *Client) retryable(err error) bool {
	s, ok := err.(*said)
	return ok && !s.vain && (c.cfg.MaxWait < 0 || s.wait <= c.cfg.MaxWait)
}
