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
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"
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

// Start returns a call of a request on an idle connection, or nil if there is none.
func (c *Client) Start(req *http.Request, inform Inform) *Call {
	for {
		idle := c.take()
		if idle == nil {
			return nil
		}
		if quiet(idle.nc) {
			return &Call{conn: idle, req: req, inform: inform, reused: true}
		}
		_ = idle.nc.Close()
	}
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

// sweep closes idle connections that are too old, or that the server has closed. Those that
// were used lately need no look: they are the next ones that Start tries.
func (c *Client) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, kept := time.Now(), c.idle[:0]
	for _, idle := range c.idle {
		if age := now.Sub(idle.since); age < sweepEvery || age < c.IdleTimeout && quiet(idle.nc) {
			kept = append(kept, idle)
		} else {
			_ = idle.nc.Close()
		}
	}
	clear(c.idle[len(kept):])
	c.idle = kept
	if c.sweeping = len(kept) > 0; c.sweeping {
		time.AfterFunc(sweepEvery, c.sweep)
	}
}

// RoundTrip implements http.RoundTripper. The request needs a GetBody if it has a body, whose
// Body RoundTrip may replace.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
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
