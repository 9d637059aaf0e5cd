package client

import (
	"bytes"
	"context"
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
	path   []string // segments, escaped
	query  string
	body   []byte
	most   int64                   // bytes of the answer, if more than maxAnswer
	read   func(body []byte) error // reads an answer with status 200; if nil, any JSON object is valid, and the circuit learns nothing
	// learn, if not nil, is called with the header of an answer, and its error.
	learn func(fields http.Header, err error)
}

// maxAnswer bounds an answer to one ask, in bytes.
const maxAnswer = 16 << 10

// errLeft is the cause of a request that is cancelled because its caller has left.
var errLeft = errors.New("client: the caller has left")

// exchange sends a request and reads the answer. The error is a *weir.Rejection or a
// *StatusError if the server answered so, an error for which away is true if the
// server does not work, or the cause of ctx if it was cancelled.
func (c *Client) exchange(ctx context.Context, q *call) error {
	c.counts.requests.Add(1)
	err := c.roundTrip(ctx, q)
	if cause := context.Cause(ctx); err != nil && cause != nil && cause != context.DeadlineExceeded {
		return cause // the caller has left or the Client is closed: no sign of the server
	}
	if err == nil && q.read == nil {
		return nil
	}
	var failure error
	if away(err) {
		c.counts.failures.Add(1)
		failure = err
	}
	if c.circuit.note(time.Now(), failure) {
		c.start(func() { c.circuit.tell(c.cfg.OnAway) })
	}
	return err
}

// away reports whether an error means that the server does not answer as it should.
func away(err error) bool {
	switch err.(type) {
	case *weir.Rejection, *StatusError:
		return false
	}
	return err != nil && err != errLeft && err != context.Canceled && err != context.DeadlineExceeded
}

func (c *Client) roundTrip(ctx context.Context, q *call) error {
	r := (&http.Request{
		Method: q.method, URL: c.target(q), Host: c.base.Host, Header: c.header.Clone(),
		Proto: "HTTP/2.0", ProtoMajor: 2,
	}).WithContext(ctx)
	if q.body != nil {
		r.ContentLength = int64(len(q.body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.body)), nil }
		r.Body, _ = r.GetBody()
		r.Header["Content-Type"] = []string{"application/json"}
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, max(q.most, maxAnswer))) // a longer answer is cut, and then malformed
	switch {
	case err != nil:
		return fmt.Errorf("client: %w", err)
	case resp.StatusCode != http.StatusOK:
		err = refused(resp.StatusCode, body)
	case q.read == nil:
		err = decodeAny(body)
	default:
		err = q.read(body)
	}
	if q.learn != nil && !away(err) {
		q.learn(resp.Header, err)
	}
	return err
}

// target returns the URL of a call.
func (c *Client) target(q *call) *url.URL {
	u := *c.base
	raw := c.base.EscapedPath() + "/" + strings.Join(q.path, "/")
	if path, err := url.PathUnescape(raw); err == nil {
		u.Path, u.RawPath = path, raw
	}
	u.RawQuery = q.query
	return &u
}

// cost returns the query of a request for n units.
func cost(n int) string { return "n=" + strconv.Itoa(n) }

// waiting returns the query of a request that waits for n units.
func waiting(n int, wait time.Duration) string {
	return cost(n) + "&canWait=true&timeout=" + strconv.FormatInt(max(wait.Milliseconds(), 1), 10) + "ms"
}
