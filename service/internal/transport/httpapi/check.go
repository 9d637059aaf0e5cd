package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/httpapi/gateway"
	"github.com/weir-go/weir/service/internal/transport/wirejson/jsontext"
)

// checkRoot is the first part of the path of the endpoint for gateways.
const checkRoot = "check"

// anyMethod is the method of an endpoint that answers each method alike.
const anyMethod = "*"

// A check is a gateway's question that is being answered.
type check struct {
	gateway.Check
	requests [gateway.MaxKeys]decider.Request // of several keys
	verdicts [gateway.MaxKeys]decider.Verdict
}

// forget clears all that belongs to the request.
func (k *check) forget() {
	k.Forget()
	clear(k.requests[:])
	for i := range k.verdicts {
		k.verdicts[i].Answers = k.verdicts[i].Answers[:0]
	}
}

// check answers a gateway: 200, the status of a denial, or 500 or 503 if there is no decision.
// Gateways take other statuses for a denial, so that a mistake of the gateway must not have
// them. What the gateway's client may have caused is a denial, because gateways may let requests
// pass without a decision.
func (c *call) check(e *endpoint) *fault {
	if c.unread && c.r.ProtoMajor == 1 {
		c.w.Header()["Connection"] = closes // or else net/http reads the body first
	}
	c.forbidStore()
	k := c.api.checks.Get().(*check)
	defer func() {
		k.forget()
		c.api.checks.Put(k)
	}()
	if err := k.Parse(c.r.Header); err != nil {
		return noCheck(err.Error())
	}
	if f := c.findKeys(k); f != nil {
		if f.status == http.StatusTooManyRequests {
			return c.refuse(f, k.Denied)
		}
		return f
	}
	if f := c.enter(e); f != nil {
		return f
	}
	if f := c.decide(k); f != nil {
		return f
	}
	c.writeFields()
	c.writeStep(c.verdict.Step)
	if c.verdict.OK {
		return nil // with status 200 and no body
	}
	f := c.denyRate()
	if c.verdict.Step == decider.ByRule {
		f.status = http.StatusTooManyRequests // also while the store is away
	}
	if f.status != http.StatusTooManyRequests {
		return f // the server is closing
	}
	return c.refuse(f, k.Denied)
}

// noCheck returns the fault of a gateway that is not set up well.
func noCheck(text string) *fault {
	return &fault{status: http.StatusInternalServerError, text: "/check: " + text}
}

// findKeys reads the keys of a check.
func (c *call) findKeys(k *check) *fault {
	if err := k.ParseKeys(c.r.Header, c.api.cfg.MaxKey); err != nil {
		if mistake, ok := err.(gateway.Mistake); ok {
			return noCheck(string(mistake))
		}
		return &fault{status: http.StatusTooManyRequests, text: err.Error()}
	}
	for _, key := range k.Keys {
		if f := c.authorize(token.Decide, key); f != nil {
			return noCheck(f.text)
		}
	}
	return nil
}

// decide decides about all keys, or takes no tokens. The verdict belongs to the key with the
// longest denial; if all keys are allowed, it has the answers for all.
func (c *call) decide(k *check) *fault {
	if c.request = (decider.Request{Key: k.Keys[0], N: k.Cost}); len(k.Keys) == 1 {
		if err := c.api.decider.Decide(c.r.Context(), &c.request, &c.verdict); err != nil {
			return c.uncheckable(err)
		}
		return nil
	}
	for i, key := range k.Keys {
		k.requests[i] = decider.Request{Key: key, N: k.Cost}
	}
	all := k.verdicts[:len(k.Keys)]
	ok, err := c.api.decider.Batch(c.r.Context(), k.requests[:len(k.Keys)], true, all)
	if err != nil {
		return c.uncheckable(err)
	}
	v := &c.verdict
	*v = decider.Verdict{OK: ok, Answers: v.Answers[:0]}
	longest := time.Duration(-1)
	for i := range all {
		one := &all[i]
		switch {
		case ok:
			v.Answers, v.Step = append(v.Answers, one.Answers...), max(v.Step, one.Step)
		case one.Reason != 0 && one.RetryAfter > longest:
			longest = one.RetryAfter
			*v = decider.Verdict{Reason: one.Reason, RetryAfter: one.RetryAfter, Step: one.Step, Answers: append(v.Answers[:0], one.Answers...)}
		}
	}
	return nil
}

// uncheckable returns the fault for an error of a decision about tokens. A rule without a rate is a
// mistake of the operator, not a denial.
func (c *call) uncheckable(err error) *fault {
	if errors.Is(err, decider.ErrNoRate) {
		return unratedCheck
	}
	return c.failed()
}

// refuse answers with a denial. status is the one that the gateway takes for a denial, which may
// differ from the status 429 that the body tells. The answer does not tell the key, because the
// gateway passes it to its client.
func (c *call) refuse(f *fault, status int) *fault {
	c.status = f.status // with another one, retryAfter would do nothing
	if f.reason != 0 {
		c.retryAfter(f.retryAfter)
	}
	b := jsontext.AppendText(f.appendProblem(append(c.buf[:0], '{')), `"error":`, f.text)
	c.buf = append(f.appendDenial(b), "}\n"...)
	c.status = status
	c.send(problemType)
	return nil
}
