package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/atmost"
	"github.com/weir-go/weir/service/internal/transport/httpapi/query"
	"github.com/weir-go/weir/service/internal/transport/wirejson/jsontext"
)

// ask asks for tokens, and waits for them if canWait is set.
func (c *call) ask() *fault {
	p, cfg := &c.params, &c.api.cfg
	if f := checkOwn(p, query.MaxRequests, "maxRequests", p.MaxRequests, 1, cfg.MaxLimit); f != nil {
		return f
	}
	if f := checkOwn(p, query.MaxRequestsInQueue, "maxRequestsInQueue", p.MaxQueue, 0, cfg.MaxQueue); f != nil {
		return f
	}
	req := &c.request // it is zero: to set the fields takes less time than to copy a whole one
	req.Key, req.N, req.Limit, req.Queue = c.key, c.cost(), p.MaxRequests, p.MaxQueue
	req.OwnQueue, req.WantID = p.Valued&query.MaxRequestsInQueue != 0, req.N > 0
	if c.r.ContentLength == 0 { // or else reading has taken time
		req.Now = c.came
	}
	if p.AtMost && p.CanWait {
		return bad("atMost and canWait exclude each other")
	}
	if p.CanWait {
		if f := c.wait(); f != nil {
			return f
		}
	} else if p.AtMost {
		if err := atmost.Decide(c.r.Context(), c.api.decider, &c.request, &c.verdict); err != nil {
			return c.undecided(err)
		}
	} else if err := c.api.decider.Decide(c.r.Context(), &c.request, &c.verdict); err != nil {
		return c.undecided(err)
	}
	c.writeFields()
	c.writeStep(c.verdict.Step)
	if !c.verdict.OK {
		return c.denyRate()
	}
	return c.grant()
}

// cost returns the number of tokens or units that the request asks for.
func (c *call) cost() int {
	if c.params.Valued&query.N == 0 {
		return 1
	}
	return c.params.N
}

// checkOwn checks a limit that a request sets for itself.
func checkOwn(p *query.Params, which query.Param, name string, value, least, most int) *fault {
	switch {
	case p.Valued&which == 0:
		return nil
	case most == 0:
		return &fault{status: http.StatusForbidden, text: name + " query parameter is disabled"}
	case value < least || value > most:
		return bad("%s out of bounds", name)
	}
	return nil
}

// wait waits for a verdict.
func (c *call) wait() *fault {
	ctx, cancel, f := c.waitContext()
	if f != nil {
		return f
	}
	defer cancel()
	v := &c.verdict
	c.request.OnWait = c.suspend
	c.fields.DropMemory() // many calls may wait
	err := c.api.decider.Wait(ctx, &c.request, v)
	if v.Waited > 0 {
		c.restoreDeadline()
	}
	switch {
	case err == nil && v.OK && v.Waited > 0 && c.r.Context().Err() != nil: // the client disconnected as its turn came
		id := c.api.decider.AppendGrantID(c.buf[:0], v.Grant, c.key)
		_, _ = c.api.decider.Settle(context.WithoutCancel(c.r.Context()), c.key, string(id), 0) // an error cannot be handled
		return left
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded): // the estimate on arrival was earlier
		v.OK, v.Reason, v.RetryAfter = false, weir.TooLate, 0
		return nil
	}
	return c.undecided(err)
}

// waitContext returns the context of a wait. It ends with the request or after the
// shorter of the time-outs that the request has.
func (c *call) waitContext() (context.Context, context.CancelFunc, *fault) {
	timeout, limited := c.params.Timeout, c.params.Valued&query.Timeout != 0
	if header := c.r.Header["Request-Timeout"]; len(header) > 0 {
		d, ok := query.Duration(header[0])
		if !ok || len(header) > 1 {
			return nil, nil, bad("cannot read Request-Timeout: it must be %s", query.WantDuration)
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

// suspendDeadline removes the time-out of the answer while the call waits or works long. A
// ResponseWriter without time-outs returns an error, which is ignored.
func (c *call) suspendDeadline() {
	c.waits = true
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{})
}

// restoreDeadline restarts the time-out of the answer, after that of an unread body.
func (c *call) restoreDeadline() {
	d := c.api.cfg.AnswerTimeout
	if c.unread {
		d += c.api.cfg.BodyTimeout
	}
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(d))
}

// grant answers a request that is allowed.
func (c *call) grant() *fault {
	if c.traits().text {
		return c.grantText()
	}
	v, b := &c.verdict, append(c.buf[:0], '{')
	if c.request.N == 0 {
		if remaining, ok := v.Remaining(); ok {
			b = jsontext.AppendInt(b, `"remaining":`, remaining)
		}
		return c.sendObject(b)
	}
	b = append(b, `"request_id":"`...)
	b = append(c.api.decider.AppendGrantID(b, v.Grant, c.key), '"')
	if c.params.AtMost {
		b = jsontext.AppendInt(b, `,"granted":`, c.request.N)
	}
	if v.Waited > 0 {
		b = jsontext.AppendMillis(b, `,"waited_ms":`, v.Waited)
		b = jsontext.AppendInt(b, `,"place":`, v.Place)
	}
	return c.sendObject(b)
}

// grantText answers a request that is allowed with its id alone, as GoCC does; without a cost, with
// the remaining tokens.
func (c *call) grantText() *fault {
	b := c.buf[:0]
	if c.request.N > 0 {
		b = c.api.decider.AppendGrantID(b, c.verdict.Grant, c.key)
	} else if remaining, ok := c.verdict.Remaining(); ok {
		b = jsontext.AppendInt(b, "", remaining)
	}
	return c.sendText(b)
}

// denyRate returns the fault of a request that is denied.
func (c *call) denyRate() *fault {
	v := &c.verdict
	f := c.deny("rate limit exceeded", v.Reason, v.RetryAfter, v.Step)
	f.canWait, f.place = c.params.CanWait && v.Reason != weir.Closed, v.Place
	if a := v.Denied(); a != nil {
		f.rule = a.Rule.Name
	}
	return f
}

// settle reports the true cost of a grant, or gives it back.
func (c *call) settle() *fault {
	if c.r.Method == http.MethodPost && c.params.Valued&query.N == 0 {
		return bad("n is missing: the true cost of a grant; %s", slashInKey)
	}
	done, err := c.api.decider.Settle(c.r.Context(), c.key, c.id, c.params.N)
	switch {
	case errors.Is(err, decider.ErrNoGrant):
		return noGrant
	case err != nil:
		return c.failed()
	}
	b := jsontext.AppendInt(c.buf[:0], `{"was":`, done.Was)
	b = jsontext.AppendInt(b, `,"charged":`, done.Charged)
	return c.sendObject(b)
}
