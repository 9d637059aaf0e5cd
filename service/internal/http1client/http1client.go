// Package http1client is a client of HTTP/1.1 for one address, and for requests whose bodies
// are in memory.
//
// The goroutine that makes a request sends it and reads the answer. http.Transport uses two
// more goroutines for each connection, and wakes both for each request. Requests are written,
// and answers parsed, by net/http. The rules for connections are those of http.Transport, but
// for one: bytes that come before the request that they seem to answer close the connection.
package http1client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// A Client keeps connections for the requests that follow. It is safe for concurrent use.
type Client struct {
	// Dial opens a connection.
	Dial func(context.Context) (net.Conn, error)
	// MaxIdle bounds the number of idle connections.
	MaxIdle int
	// IdleTimeout bounds how long a connection is idle.
	IdleTimeout time.Duration

	mu       sync.Mutex // guards the fields below
	idle     []*conn    // the one that was used last is the last
	sweeping bool       // a timer calls sweep
}

// sweepEvery is the period in which idle connections are closed that are too old, or that the
// server has closed.
const sweepEvery = 5 * time.Second

// Inform takes the 1xx answers that precede an answer, as httptrace.ClientTrace.Got1xxResponse
// does.
type Inform func(code int, header textproto.MIMEHeader) error

// Start returns a call of a request on an idle connection, or nil if there is none, or RoundTrip
// refuses the request.
func (c *Client) Start(req *http.Request, inform Inform) *Call {
	for invalid(req) == nil {
		idle := c.take()
		if idle == nil {
			return nil
		}
		if idle.usable() {
			return &Call{conn: idle, req: req, inform: inform, reused: true}
		}
	}
	return nil
}

// invalid returns why a request must not be sent: it would not be what it seems to be. Requests over
// HTTP/2 can have such a method. net/http checks the path and the host when it writes them.
func invalid(req *http.Request) error {
	if !httpguts.ValidHeaderFieldName(req.Method) { // a token, too
		return fmt.Errorf("http1client: invalid method %q", req.Method)
	}
	for name, values := range req.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("http1client: invalid header %q", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("http1client: invalid value of the header %q", name) // may be secret
			}
		}
	}
	return nil
}

// take removes a connection from those that are idle. It returns nil if there is none.
func (c *Client) take() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.idle) - 1
	if last < 0 {
		return nil
	}
	idle := c.idle[last]
	c.idle[last] = nil
	c.idle = c.idle[:last]
	return idle
}

// put makes a connection idle, or closes it.
func (c *Client) put(idle *conn) {
	idle.since = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) >= c.MaxIdle {
		_ = idle.nc.Close()
		return
	}
	c.idle = append(c.idle, idle)
	if !c.sweeping {
		c.sweeping = true
		time.AfterFunc(sweepEvery, c.sweep)
	}
}

// CloseIdleConnections closes the idle connections.
func (c *Client) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, idle := range c.idle {
		_ = idle.nc.Close()
	}
	c.idle = nil
}

// sweep closes idle connections that are too old, or that the server has closed. Those that
// were used lately need no look: they are the next ones that Start tries.
func (c *Client) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, kept := time.Now(), c.idle[:0]
	for _, idle := range c.idle {
		switch age := now.Sub(idle.since); {
		case age >= c.IdleTimeout:
			_ = idle.nc.Close()
		case age < sweepEvery || idle.usable():
			kept = append(kept, idle)
		}
	}
	clear(c.idle[len(kept):])
	c.idle = kept
	if c.sweeping = len(kept) > 0; c.sweeping {
		time.AfterFunc(sweepEvery, c.sweep)
	}
}

// RoundTrip implements http.RoundTripper. The request needs a Method, and a GetBody if it has a
// body. RoundTrip may replace its Body.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := invalid(req); err != nil {
		return nil, err
	}
	ctx := req.Context()
	inform := Inform(func(int, textproto.MIMEHeader) error { return nil })
	if t := httptrace.ContextClientTrace(ctx); t != nil && t.Got1xxResponse != nil {
		inform = t.Got1xxResponse
	}
	if call := c.Start(req, inform); call != nil {
		resp, err := call.wait(ctx)
		if err == nil || !call.Stale() || ctx.Err() != nil {
			return resp, err
		}
	}
	nc, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return (&Call{conn: newConn(c, nc), req: req, inform: inform}).wait(ctx)
}
