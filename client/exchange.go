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
	most   int64                   // bytes of the answer, if it is longer than is common
	read   func(body []byte) error // of the answer, if it is 200; nil if any object will do, which says nothing of who gave it
	// learn, if not nil, is called with the fields of an answer, and what it says.
	learn func(fields http.Header, said error)
}

// maxAnswer bounds an answer to one ask, in bytes.
const maxAnswer = 16 << 10

// errLeft is why a request is cancelled whose caller does not wait any more.
var errLeft = errors.New("client: the caller has left")

// exchange sends a request and reads the answer. The error is a *weir.Rejection
// or a *StatusError if the server has said so; one of away if it is not working;
// or that of ctx, if it was not the server's time that ran out.
func (c *Client) exchange(ctx context.Context, q *call) error {
	c.counts.requests.Add(1)
	err := c.roundTrip(ctx, q)
	if cause := context.Cause(ctx); err != nil && cause != nil && cause != context.DeadlineExceeded {
		return cause // the caller has left, or the Client is closed: says nothing about the server
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

// away reports whether an error means that the server does not work.
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
	body, err := io.ReadAll(io.LimitReader(resp.Body, max(q.most, maxAnswer))) // what is longer is cut, and so garbage
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

// cost is the query of a request for n units.
func cost(n int) string { return "n=" + strconv.Itoa(n) }

// waiting is the query of a request that waits for n units.
func waiting(n int, wait time.Duration) string {
	return cost(n) + "&canWait=true&timeout=" + strconv.FormatInt(max(wait.Milliseconds(), 1), 10) + "ms"
}
