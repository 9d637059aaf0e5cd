package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// ask asks for tokens, and waits for them if canWait is set.
func (c *call) ask() {
	p := &c.params
	if f := c.mayOverride(); f != nil {
		c.fail(f)
		return
	}
	c.request = decider.Request{Key: c.key, N: c.cost(), Limit: p.maxRequests, Queue: p.maxQueue, OwnQueue: p.valued&paramMaxRequestsInQueue != 0}
	if !p.canWait {
		if err := c.api.decider.Decide(c.r.Context(), &c.request, &c.verdict); err != nil {
			c.failed()
			return
		}
	} else if !c.wait() {
		return
	}
	c.writeFields()
	if c.verdict.OK {
		c.grant()
	} else {
		c.deny()
	}
}

// cost returns the number of tokens or units that the request asks for.
func (c *call) cost() int {
	if c.params.valued&paramN == 0 {
		return 1
	}
	return c.params.n
}

// mayOverride checks the limits that a request sets for itself.
func (c *call) mayOverride() *fault {
	p, cfg := &c.params, &c.api.cfg
	if p.valued&(paramMaxRequests|paramMaxRequestsInQueue) == 0 {
		return nil
	}
	for _, o := range [...]struct {
		which              param
		name               string
		value, least, most int
	}{
		{paramMaxRequests, "maxRequests", p.maxRequests, 1, cfg.MaxLimit},
		{paramMaxRequestsInQueue, "maxRequestsInQueue", p.maxQueue, 0, cfg.MaxQueue},
	} {
		switch {
		case p.valued&o.which == 0:
		case o.most == 0:
			return &fault{status: http.StatusForbidden, text: o.name + " query parameter is disabled"}
		case o.value < o.least || o.value > o.most:
			return &fault{status: http.StatusBadRequest, text: o.name + " out of bounds"}
		}
	}
	return nil
}

// wait waits for a verdict, and reports whether there is one.
func (c *call) wait() bool {
	ctx, cancel, f := c.waitContext()
	if f != nil {
		c.fail(f)
		return false
	}
	defer cancel()
	v := &c.verdict
	c.request.OnWait = c.suspend
	err := c.api.decider.Wait(ctx, &c.request, v)
	if v.Waited > 0 {
		c.restoreDeadline()
	}
	switch {
	case err == nil && v.OK && v.Waited > 0 && c.r.Context().Err() != nil: // the client disconnected as its turn came
		id := c.api.decider.AppendGrantID(c.buf[:0], v.Grant, c.key)
		_, _ = c.api.decider.Settle(context.WithoutCancel(c.r.Context()), c.key, string(id), 0) // an error cannot be handled
		c.leave()
		return false
	case err == nil:
		return true
	case errors.Is(err, context.DeadlineExceeded): // the estimate on arrival was earlier
		v.OK, v.Reason, v.RetryAfter = false, weir.TooLate, 0
		return true
	}
	c.failed()
	return false
}

// waitContext returns the context of a wait. It ends with the request or after the
// shorter of the time-outs that the request has.
func (c *call) waitContext() (context.Context, context.CancelFunc, *fault) {
	timeout, limited := c.params.timeout, c.params.valued&paramTimeout != 0
	if header := c.r.Header["Request-Timeout"]; len(header) > 0 {
		d, ok := time.Duration(0), len(header) == 1 && header[0] != ""
		if ok {
			d, ok = duration(header[0])
		}
		if !ok {
			return nil, nil, &fault{status: http.StatusBadRequest, text: "cannot read Request-Timeout: it must be " + wants(paramTimeout)}
		}
		if !limited || d < timeout {
			timeout, limited = d, true
		}
	}
	if !limited {
		return c.r.Context(), func() {}, nil
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), timeout)
	return ctx, cancel, nil
}

// suspendDeadline removes the time-out of the answer while the call waits. A
// ResponseWriter without time-outs returns an error, which is ignored.
func (c *call) suspendDeadline() { _ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{}) }

// restoreDeadline restarts the time-out of the answer.
func (c *call) restoreDeadline() {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(c.api.cfg.AnswerTimeout))
}

// failed answers when there is no decision.
func (c *call) failed() {
	if c.r.Context().Err() != nil {
		c.leave()
	} else {
		c.fail(unavailable)
	}
}

// leave ends the call of a client that has disconnected.
func (c *call) leave() {
	c.status = left
	c.w.WriteHeader(left)
}

// grant answers a request that is allowed.
func (c *call) grant() {
	v, b := &c.verdict, append(c.buf[:0], '{')
	if c.request.N == 0 {
		if remaining, ok := remaining(v); ok {
			b = append(b, `"remaining":`...)
			b = strconv.AppendInt(b, int64(remaining), 10)
		}
	} else {
		b = append(b, `"request_id":"`...)
		b = c.api.decider.AppendGrantID(b, v.Grant, c.key)
		b = append(b, '"')
		if v.Waited > 0 {
			b = append(b, `,"waited_ms":`...)
			b = appendMillis(b, v.Waited)
			b = append(b, `,"place":`...)
			b = strconv.AppendInt(b, int64(v.Place), 10)
		}
	}
	c.buf = append(b, "}\n"...)
	c.send(http.StatusOK, jsonType)
}

// remaining returns the remaining tokens of the rule that has the fewest; ok is false
// if no rule counts.
func remaining(v *decider.Verdict) (least int, ok bool) {
	for i := range v.Answers {
		if a := &v.Answers[i]; a.Rule.Mode != config.Shadow && (!ok || a.Remaining < least) {
			least, ok = a.Remaining, true
		}
	}
	return least, ok
}

// deny answers a request that is denied.
func (c *call) deny() {
	v := &c.verdict
	f := fault{
		status: http.StatusTooManyRequests, text: "rate limit exceeded",
		reason: v.Reason, retryAfter: v.RetryAfter, canWait: c.params.canWait, place: v.Place,
	}
	if v.Reason == weir.Closed {
		f.status, f.text, f.canWait = http.StatusServiceUnavailable, ending, false
	}
	if a := v.Denied(); a != nil {
		f.rule = a.Rule.Name
	}
	c.fail(&f)
}

// giveBack returns a grant.
func (c *call) giveBack() { c.settleFor(0) }

// settle reports the true cost of a grant.
func (c *call) settle() {
	if c.params.valued&paramN == 0 {
		c.fail(&fault{status: http.StatusBadRequest, text: "n is missing: the true cost"})
		return
	}
	c.settleFor(c.params.n)
}

func (c *call) settleFor(n int) {
	done, err := c.api.decider.Settle(c.r.Context(), c.key, c.id, n)
	switch {
	case errors.Is(err, decider.ErrNoGrant):
		c.fail(noGrant)
		return
	case err != nil:
		c.failed()
		return
	}
	b := append(c.buf[:0], `{"was":`...)
	b = strconv.AppendInt(b, int64(done.Was), 10)
	b = append(b, `,"charged":`...)
	b = strconv.AppendInt(b, int64(done.Charged), 10)
	c.buf = append(b, "}\n"...)
	c.send(http.StatusOK, jsonType)
}
