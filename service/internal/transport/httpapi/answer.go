package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/problem"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/wirejson/jsontext"
)

// A fault is an error answer.
type fault struct {
	status int
	text   string

	// Of a denial: the reason, the rule, and when the request would be allowed; 0 if
	// unknown, weir.Never if it never will.
	reason     weir.Reason
	rule       string
	retryAfter time.Duration
	// canWait is set for a request that would have waited; place is the number of
	// requests before it.
	canWait bool
	place   int
}

// slashInKey is for paths of more parts than their sender may mean.
const slashInKey = "write a slash in a key as %2F"

// Constant faults.
var (
	brokenBody   = bad("the body is incomplete")
	unknownPath  = &fault{status: http.StatusNotFound, text: "unknown path; " + slashInKey}
	noGrant      = &fault{status: http.StatusNotFound, text: decider.ErrNoGrant.Error()}
	noLease      = &fault{status: http.StatusNotFound, text: decider.ErrNoLease.Error()}
	noRate       = &fault{status: http.StatusNotFound, text: decider.ErrNoRate.Error() + ": POST /lease/{key}"}
	unratedCheck = noCheck("no rule with a rate matches a key, only one with a concurrency, which a gateway cannot ask for: give that rule a rate, or have the gateway ask about another key")
	noLeasing    = &fault{status: http.StatusNotFound, text: decider.ErrNoLeasing.Error()}
	// unavailable is the answer to an error of the Decider.
	unavailable = &fault{status: http.StatusServiceUnavailable, text: "no decision is available; try again"}
	busy        = &fault{status: http.StatusServiceUnavailable, text: "too many requests at once from your address, or from all; try again", retryAfter: time.Second}
	largeBody   = &fault{status: http.StatusRequestEntityTooLarge, text: "the body is too large"}
	manyAsked   = &fault{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("a batch has at most %d requests", maxBatch)}
	getDecides  = &fault{status: http.StatusMethodNotAllowed, text: "GET takes no tokens: send POST, ask with n=0, or start the server with --get-decides"}
	crossOrigin = &fault{status: http.StatusForbidden, text: "a browser sent this request for a page of another origin"}
	encodedBody = &fault{status: http.StatusUnsupportedMediaType, text: "the body must not be encoded"}
	otherType   = &fault{status: http.StatusUnsupportedMediaType, text: "the Content-Type must be application/json or application/x-ndjson"}
	slowBody    = &fault{status: http.StatusRequestTimeout, text: "the body was not received in time"}
	// left is the fault of a client that has disconnected: only its status is used,
	// for the counts.
	left = &fault{status: 499}
)

// bad returns the fault of an invalid request.
func bad(format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, text: fmt.Sprintf(format, args...)}
}

// undecided returns the fault for an error of a decision about tokens.
func (c *call) undecided(err error) *fault {
	if errors.Is(err, decider.ErrNoRate) {
		return noRate
	}
	return c.failed()
}

// failed returns the fault for an error of the Decider.
func (c *call) failed() *fault {
	if c.r.Context().Err() != nil {
		return left
	}
	return unavailable
}

// deny returns the fault of a denied request. It replaces an earlier one of the call.
func (c *call) deny(text string, why weir.Reason, retryAfter time.Duration, step decider.Step) *fault {
	c.denial = fault{status: http.StatusTooManyRequests, text: text, reason: why, retryAfter: retryAfter}
	if why == weir.Closed {
		c.denial.status, c.denial.text = http.StatusServiceUnavailable, step.Closed()
	}
	return &c.denial
}

// Values that answers share.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	linesType   = []string{"application/x-ndjson"}
	textType    = []string{"text/plain; charset=utf-8"}
	noStore     = []string{"no-store"}
	bearer      = []string{"Bearer"}
	closes      = []string{"close"}
)

// send answers with what is in the buffer.
func (c *call) send(contentType []string) {
	c.w.Header()["Content-Type"] = contentType
	if c.r.Method != http.MethodPost {
		c.forbidStore()
	}
	if c.status != http.StatusOK {
		c.w.WriteHeader(c.status)
	}
	_, _ = c.w.Write(c.buf) // a client that is gone needs no answer
}

// sendObject ends a JSON object, and answers with it.
func (c *call) sendObject(b []byte) *fault {
	c.buf = append(b, "}\n"...)
	c.send(jsonType)
	return nil
}

// sendText answers with a text, as GoCC does.
func (c *call) sendText(b []byte) *fault {
	c.buf = b
	c.send(textType)
	return nil
}

// fail answers with a fault: as a problem (RFC 9457) or as text if the client asks for that,
// else in the format of GoCC.
func (c *call) fail(f *fault) {
	c.status = f.status
	if f == left {
		c.w.WriteHeader(f.status)
		return
	}
	contentType := jsonType
	switch {
	case asProblem(c.r.Header["Accept"]):
		contentType = problemType
		c.buf = c.appendFault(f.appendProblem(append(c.buf[:0], '{')), f)
	case c.traits().text:
		contentType = textType
		c.buf = append(c.buf[:0], f.text...)
	default:
		c.buf = c.appendFault(append(c.buf[:0], '{'), f)
	}
	if f.status == http.StatusUnauthorized {
		c.w.Header()["Www-Authenticate"] = bearer // required by RFC 9110, section 11.6.1
	}
	if c.unread && c.r.ProtoMajor == 1 {
		c.w.Header()["Connection"] = closes // or else net/http reads the body first
	}
	c.retryAfter(f.retryAfter)
	c.send(contentType)
}

// appendFault appends the members of a fault, and ends the object.
func (c *call) appendFault(b []byte, f *fault) []byte {
	b = jsontext.AppendText(b, `"error":`, f.text)
	if c.key != "" {
		b = jsontext.AppendText(b, `,"key":`, c.key)
	}
	return append(f.appendDenial(b), "}\n"...)
}

// retryAfter sets Retry-After on answers with the status 429 or 503.
func (c *call) retryAfter(d time.Duration) {
	if c.status != http.StatusTooManyRequests && c.status != http.StatusServiceUnavailable {
		return
	}
	if again := problem.RetryAfter(d); again != nil {
		c.w.Header()["Retry-After"] = again
	}
}

// appendProblem appends the members of RFC 9457.
func (f *fault) appendProblem(b []byte) []byte {
	kind := problem.Blank
	switch f.status {
	case http.StatusTooManyRequests:
		kind = problem.QuotaExceeded
	case http.StatusServiceUnavailable:
		kind = problem.ReducedCapacity
	}
	b = jsontext.AppendText(b, `"type":`, kind)
	b = jsontext.AppendText(b, `,"title":`, http.StatusText(f.status))
	b = jsontext.AppendInt(b, `,"status":`, f.status)
	b = jsontext.AppendText(b, `,"detail":`, f.text)
	if f.rule != "" {
		b = append(jsontext.AppendText(b, `,"violated-policies":[`, f.rule), ']')
	}
	return append(b, ',')
}

// appendDenial appends the members of a denial.
func (f *fault) appendDenial(b []byte) []byte {
	if f.reason == 0 {
		return b
	}
	b = jsontext.AppendText(b, `,"reason":`, f.reason.String())
	if f.rule != "" {
		b = jsontext.AppendText(b, `,"rule":`, f.rule)
	}
	if f.retryAfter <= 0 || f.retryAfter == weir.Never {
		return b
	}
	b = jsontext.AppendMillis(b, `,"retry_after_ms":`, f.retryAfter)
	if f.canWait {
		b = jsontext.AppendMillis(b, `,"eta_ms":`, f.retryAfter)
		b = jsontext.AppendInt(b, `,"place":`, f.place)
	}
	return b
}
