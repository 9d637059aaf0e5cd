package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/problem"
)

// ErrUnauthorized is the error of Config.Authorize for a client without valid
// credentials.
var ErrUnauthorized = errors.New("unauthorized")

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

// Constant faults.
var (
	emptyKey   = &fault{status: http.StatusBadRequest, text: "the key is empty"}
	longKey    = &fault{status: http.StatusBadRequest, text: "the key is too long"}
	oddKey     = &fault{status: http.StatusBadRequest, text: "the key must be UTF-8 without control characters"}
	manyParams = &fault{status: http.StatusBadRequest, text: "the query has more than " + strconv.Itoa(maxParams) + " parameters"}
	badEscape  = &fault{status: http.StatusBadRequest, text: "the query has an invalid escape"}
	noGrant    = &fault{status: http.StatusNotFound, text: "no such grant of this key: it was settled or is too old"}
	noLease    = &fault{status: http.StatusNotFound, text: "no such lease of this key: it was returned or has expired"}
	noLeasing  = &fault{status: http.StatusNotFound, text: "no rule with a concurrency matches this key"}
	// unavailable is the answer to an error of the Decider.
	unavailable = &fault{status: http.StatusServiceUnavailable, text: "no decision is available; try again"}
	busy        = &fault{status: http.StatusServiceUnavailable, text: "too many requests at once; try again"}
	largeBody   = &fault{status: http.StatusRequestEntityTooLarge, text: "the body is too large"}
	slowBody    = &fault{status: http.StatusRequestTimeout, text: "the body was not received in time"}
	brokenBody  = &fault{status: http.StatusBadRequest, text: "the body is incomplete"}
)

func unauthorized(err error) *fault {
	if errors.Is(err, ErrUnauthorized) {
		return &fault{status: http.StatusUnauthorized, text: err.Error()}
	}
	return &fault{status: http.StatusForbidden, text: err.Error()}
}

// ending is the error text of requests that would wait while the server closes.
const ending = "the server is closing"

// left is the status that counts requests of clients that disconnected while they
// waited.
const left = 499

// Values that answers share.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	linesType   = []string{"application/x-ndjson"}
	textType    = []string{"text/plain; charset=utf-8"}
	noStore     = []string{"no-store"}
	bearer      = []string{"Bearer"}
)

// send answers with what is in the buffer.
func (c *call) send(status int, contentType []string) {
	h := c.w.Header()
	h["Content-Type"] = contentType
	if c.r.Method != http.MethodPost {
		h["Cache-Control"] = noStore // a cache must not repeat a grant
	}
	if c.status = status; status != http.StatusOK {
		c.w.WriteHeader(status)
	}
	_, _ = c.w.Write(c.buf) // a client that is gone needs no answer
}

// fail answers with a fault: as a problem (RFC 9457) if the client accepts that,
// else in the format of GoCC.
func (c *call) fail(f *fault) {
	contentType := jsonType
	b := append(c.buf[:0], '{')
	if asProblem(c.r.Header["Accept"]) {
		contentType = problemType
		b = f.appendProblem(b)
	}
	b = append(b, `"error":`...)
	b = appendString(b, f.text)
	if c.key != "" {
		b = append(b, `,"key":`...)
		b = appendString(b, c.key)
	}
	b = append(f.appendDenial(b), "}\n"...)
	c.buf = b
	if f.status == http.StatusUnauthorized {
		c.w.Header()["Www-Authenticate"] = bearer // required by RFC 9110, section 11.6.1
	}
	c.retryAfter(f)
	c.send(f.status, contentType)
}

// retryAfter sets Retry-After on answers with the status 429 or 503.
func (c *call) retryAfter(f *fault) {
	if f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable {
		if again := problem.RetryAfter(f.retryAfter); again != nil {
			c.w.Header()["Retry-After"] = again
		}
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
	b = append(b, `"type":"`...)
	b = append(b, kind...)
	b = append(b, `","title":"`...)
	b = append(b, http.StatusText(f.status)...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(f.status), 10)
	b = append(b, `,"detail":`...)
	b = appendString(b, f.text)
	if f.rule != "" {
		b = append(b, `,"violated-policies":[`...)
		b = append(appendString(b, f.rule), ']')
	}
	return append(b, ',')
}

// appendDenial appends the members of a denial.
func (f *fault) appendDenial(b []byte) []byte {
	if f.reason == 0 {
		return b
	}
	b = append(b, `,"reason":"`...)
	b = append(b, f.reason.String()...)
	b = append(b, '"')
	if f.rule != "" {
		b = append(b, `,"rule":`...)
		b = appendString(b, f.rule)
	}
	if f.retryAfter <= 0 || f.retryAfter == weir.Never {
		return b
	}
	b = append(b, `,"retry_after_ms":`...)
	b = appendMillis(b, f.retryAfter)
	if f.canWait {
		b = append(b, `,"eta_ms":`...)
		b = appendMillis(b, f.retryAfter)
		b = append(b, `,"place":`...)
		b = strconv.AppendInt(b, int64(f.place), 10)
	}
	return b
}

// appendMillis appends whole milliseconds, rounded up.
func appendMillis(b []byte, d time.Duration) []byte {
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	return strconv.AppendInt(b, int64(ms), 10)
}

// asProblem reports whether an Accept names the type of problems.
func asProblem(accept []string) bool {
	for _, line := range accept {
		for line != "" {
			var item string
			item, line, _ = strings.Cut(line, ",")
			kind, params, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(kind), "application/problem+json") {
				return !refuses(params)
			}
		}
	}
	return false
}

// refuses reports whether parameters of Accept have a weight of zero.
func refuses(params string) bool {
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			return err == nil && q == 0
		}
	}
	return false
}
