// Package problem answers refused HTTP requests, with a problem of RFC 9457 or an
// HTML page.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir"
)

// ReasonHeader is the response header that says why a request was refused.
const ReasonHeader = "Weir-Reason"

// Types of problems.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	Blank           = "about:blank" // the status says everything
)

// A Problem is a rendered response, so that a refusal neither formats nor
// allocates. It is immutable.
type Problem struct {
	Status int
	Reason string

	header [4][]string // values of headerNames
	body   []byte
	page   page
}

// headerNames are the headers of every Problem.
var headerNames = [4]string{"Content-Type", "Cache-Control", ReasonHeader, "Content-Length"}

// New returns a Problem with a status, a problem type, a reason for machines, a
// detail for people, and the names of the violated policies, if any.
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

// Explain sets the headers for a response that the caller writes. If retryAfter is
// nil, there is no Retry-After.
func (p *Problem) Explain(h http.Header, retryAfter []string) {
	h["Cache-Control"], h[ReasonHeader] = p.header[1], p.header[2]
	if retryAfter != nil {
		h["Retry-After"] = retryAfter
	}
}

// Write answers a request, with a page if the client prefers HTML. If retryAfter is
// nil, there is no Retry-After.
func (p *Problem) Write(w http.ResponseWriter, r *http.Request, retryAfter []string) {
	h := w.Header()
	for i, name := range headerNames {
		h[name] = p.header[i]
	}
	body := p.body
	if accept := r.Header["Accept"]; len(accept) > 0 && prefersHTML(accept) {
		body = p.page.with(retryAfter)
		h["Content-Type"] = htmlType
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if len(h["Content-Encoding"]) > 0 { // an outer handler compresses the body
		delete(h, "Content-Length")
	}
	if retryAfter != nil {
		h["Retry-After"] = retryAfter
	}
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have left
	}
}

// RetryAfter returns the value of a Retry-After header: whole seconds, rounded up,
// at least one. It returns nil for weir.Never.
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

// short caches the values of up to two minutes.
var short = func() (values [121][]string) {
	for s := range values {
		values[s] = []string{strconv.Itoa(s)}
	}
	return values
}()
