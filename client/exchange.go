package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
)

// A call is one request to the server.
type call struct {
	method string
	path   string // escaped, with the query
	body   []byte
	most   int64 // bytes of the answer, if more than maxAnswer
	// check reports whether an answer with status 200 is valid. If nil, any JSON object
	// is valid, and the circuit learns nothing from it.
	check func(*reply) bool
	// take, if not nil, reads an answer with status 200 instead.
	take func(body []byte) error
}

// maxAnswer bounds an answer to one ask, in bytes.
const maxAnswer = 16 << 10

// exchange sends a request and reads the answer. The error is a *weir.Rejection or a
// *StatusError if the server answered so, an error for which away is true if the
// server does not work, or the cause of ctx if it was cancelled.
func (c *Client) exchange(ctx context.Context, q *call) (reply, error) {
	c.counts.requests.Add(1)
	r, err := c.roundTrip(ctx, q)
	if cause := context.Cause(ctx); err != nil && cause != nil && cause != context.DeadlineExceeded {
		return r, cause // the caller has left or the Client is closed: no sign of the server
	}
	if err == nil && q.check == nil && q.take == nil {
		return r, nil
	}
	var failure error
	if away(err) {
		c.counts.failures.Add(1)
		failure = err
	}
	if c.circuit.Note(time.Now(), failure) {
		c.tells.start(func() { c.circuit.Tell(c.cfg.OnAway) })
	}
	return r, err
}

// away reports whether an error means that the server does not answer as it should.
func away(err error) bool {
	switch err.(type) {
	case *weir.Rejection, *StatusError:
		return false
	}
	return err != nil && err != context.Canceled && err != context.DeadlineExceeded
}

func (c *Client) roundTrip(ctx context.Context, q *call) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, q.method, c.base+q.path, bytes.NewReader(q.body))
	if err != nil {
		return reply{}, fmt.Errorf("client: %w", err)
	}
	request.Header = c.header.Clone()
	if q.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(request)
	var body []byte
	if err == nil {
		defer resp.Body.Close()
		body, err = io.ReadAll(io.LimitReader(resp.Body, max(q.most, maxAnswer))) // a longer answer is cut, and then malformed
	}
	if err != nil {
		return reply{}, fmt.Errorf("client: %w", err)
	}
	r, err := q.decode(resp.StatusCode, body)
	r.policy = resp.Header.Values("RateLimit-Policy")
	return r, err
}

// target returns the path of an endpoint, with its segments escaped.
func target(segments ...string) string {
	var path strings.Builder
	for _, s := range segments {
		path.WriteByte('/')
		if s == "." || s == ".." { // others than weir serve would shorten the path
			path.WriteString(strings.ReplaceAll(s, ".", "%2E"))
		} else {
			path.WriteString(url.PathEscape(s))
		}
	}
	return path.String()
}

// cost returns the query of a request for n units.
func cost(n int) string { return "?n=" + strconv.Itoa(n) }

// waiting returns the query of a request that waits for n units.
func waiting(n int, wait time.Duration) string {
	return cost(n) + "&canWait=true&timeout=" + milliseconds(wait)
}

// milliseconds formats a duration of a query, at least one millisecond.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10) + "ms"
}

// errGarbage is the error for an answer that does not come from weir serve.
var errGarbage = errors.New("client: not an answer of weir serve")

// decode returns the answer, or the error that it stands for: a *weir.Rejection, a
// *StatusError, or errGarbage if the server does not work.
func (q *call) decode(status int, body []byte) (r reply, err error) {
	if status == http.StatusOK && q.take != nil {
		if err := q.take(body); err != nil {
			return reply{}, fmt.Errorf("%w: %w", errGarbage, err)
		}
		return r, nil
	}
	err = json.Unmarshal(body, &r)
	if status == http.StatusOK {
		if err == nil && q.check != nil && !q.check(&r) {
			err = fmt.Errorf("%.*q", maxMessage, body)
		}
		if err != nil {
			return reply{}, fmt.Errorf("%w: %w", errGarbage, err)
		}
		return r, nil
	}
	switch {
	case err == nil && status == http.StatusTooManyRequests && r.Reason != "",
		err == nil && status == http.StatusServiceUnavailable && r.Reason == weir.Closed.String():
		return r, r.rejection()
	case status < 300 || status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return reply{}, fmt.Errorf("%w: status %d", errGarbage, status)
	case err != nil || r.Error == "":
		r.Error = string(body)
	}
	message := strings.ToValidUTF8(r.Error[:min(len(r.Error), maxMessage)], "")
	return reply{}, &StatusError{Status: status, message: message, key: r.Key}
}

// A StatusError is the error for a request that the server could not decide: the
// request (400) or the token (401, 403) is not valid, or no rule with a concurrency
// matches the key (404).
type StatusError struct {
	Status int

	message string // the beginning of the server's message
	key     string // the key that the server names, if any
}

// Error returns the status and the beginning of the server's message.
func (e *StatusError) Error() string {
	return fmt.Sprintf("client: %d %s: %s", e.Status, http.StatusText(e.Status), e.message)
}

// maxMessage bounds the part of an answer that an error has, in bytes.
const maxMessage = 200

// isPerKey reports whether a single ask may have caused the refusal of a batch.
func (e *StatusError) isPerKey() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		return true
	}
	return false
}
