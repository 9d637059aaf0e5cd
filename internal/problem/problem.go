// Package problem answers HTTP requests that are not answered by whom they
// were meant for, with a problem of RFC 9457, or a page for people.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir"
)

// ReasonHeader tells a client why its request was not answered by a handler, or
// an origin.
const ReasonHeader = "Weir-Reason"

// Types of problems.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	Blank           = "about:blank" // the status says all
)

// A Problem is an answer rendered beforehand: to refuse formats and allocates
// nothing. It does not change.
type Problem struct {
	Status int
	Reason string

	header [4][]string // the values of names
	body   []byte
	page   page
}

// names are the headers that every Problem has.
var names = [4]string{"Content-Type", "Cache-Control", ReasonHeader, "Content-Length"}

// New returns a Problem: of a status, a type, a reason for machines, and what to
// tell people; and the names of the policies that were violated, if any.
func New(status int, kind, reason, detail string, violated ...string) *Problem {
	body, err := json.Marshal(struct {
		Type     string   `json:"type"`
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Detail   string   `json:"detail"`
		Reason   string   `json:"reason"`
		Violated []string `json:"violated-policies,omitempty"`
	}{kind, http.StatusText(status), status, detail, reason, violated})
	if err != nil {
		panic("problem: " + err.Error()) // strings and a number
	}
	body = append(body, '\n')
	return &Problem{
		Status: status,
		Reason: reason,
		body:   body,
		header: [4][]string{{"application/problem+json"}, {"no-store"}, {reason}, {strconv.Itoa(len(body))}},
		page:   newPage(http.StatusText(status), detail),
	}
}

// Explain sets the headers that say why, and when to come back unless that is
// nil, for an answer that somebody else writes.
func (p *Problem) Explain(h http.Header, retryAfter []string) {
	h["Cache-Control"], h[ReasonHeader] = p.header[1], p.header[2]
	if retryAfter != nil {
		h["Retry-After"] = retryAfter
	}
}

// Write answers a request, with a Retry-After unless that is nil. A client that
// would rather have a page gets one.
func (p *Problem) Write(w http.ResponseWriter, r *http.Request, retryAfter []string) {
	h := w.Header()
	for i, name := range names {
		h[name] = p.header[i]
	}
	body := p.body
	if accept := r.Header["Accept"]; len(accept) > 0 && prefersHTML(accept) {
		body = p.page.with(retryAfter)
		h["Content-Type"] = htmlType
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if len(h["Content-Encoding"]) > 0 { // whoever has set that encodes the body
		delete(h, "Content-Length")
	}
	if retryAfter != nil {
		h["Retry-After"] = retryAfter
	}
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
}

// RetryAfter returns the value of a Retry-After: whole seconds, rounded up, one
// at least; nil for weir.Never.
func RetryAfter(d time.Duration) []string {
	if d == weir.Never {
		return nil
	}
	s := d / time.Second
	if d%time.Second > 0 {
		s++
	}
	if s = max(s, 1); int(s) < len(short) {
		return short[s]
	}
	return []string{strconv.FormatInt(int64(s), 10)}
}

// short holds the values of up to two minutes.
var short = func() (values [121][]string) {
	for s := range values {
		values[s] = []string{strconv.Itoa(s)}
	}
	return values
}()
