// Package clients is the side of the proxy that faces its clients: their connections, whose writes are bounded, and
// their addresses, which trusted proxies in front of this one report.
package clients

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Connections are the connections of clients.
type Connections struct {
	timeout time.Duration // of each write; not positive: none
	epoch   time.Time
	open    atomic.Int64
}

// NewConnections returns connections on which a write may take a time; if that is not positive, any.
func NewConnections(timeout time.Duration) *Connections {
	return &Connections{timeout: timeout, epoch: time.Now()}
}

// Count returns the number of connections.
func (s *Connections) Count() int { return int(s.open.Load()) }

// Listener returns a listener of connections that come through another one. It bounds the time of each write, and saves
// most of the deadlines that net/http sets for each request.
func (s *Connections) Listener(ln net.Listener) net.Listener { return listener{ln, s} }

type listener struct {
	net.Listener
	connections *Connections
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.connections.open.Add(1)
	return &conn{Conn: c, of: l.connections}, nil
}

// timeoutSlack is the part of the time of a write by which the write may last longer: a connection
// sets a deadline only that often, because that costs more than all else that Write adds.
const timeoutSlack = 1. / 32

type conn struct {
	net.Conn
	of      *Connections
	once    sync.Once    // counts the first Close
	until   atomic.Int64 // the instant of the deadline that Write has set; 0 if another one has replaced it
	reads   readDeadline
	lingers atomic.Bool            // Close waits for the rest of a request
	reason  atomic.Pointer[reason] // of the next answer; nil: that of net/http
}

// slack returns how much later than asked for a deadline may be.
func (c *conn) slack() time.Duration {
	return time.Duration(timeoutSlack * float64(c.of.timeout))
}

// Write bounds its time.
func (c *conn) Write(b []byte) (int, error) {
	if timeout := c.of.timeout; timeout > 0 {
		until := time.Since(c.of.epoch) + timeout
		if time.Duration(c.until.Load()) < until {
			until += c.slack()
			c.until.Store(int64(until))
			if err := c.Conn.SetWriteDeadline(c.of.epoch.Add(until)); err != nil {
				return 0, err
			}
		}
	}
	if r := c.reason.Load(); r != nil {
		if with, ok := r.put(b); ok {
			c.reason.Store(nil)
			if _, err := c.Conn.Write(with); err != nil {
				return 0, err
			}
			return len(b), nil
		}
	}
	return c.Conn.Write(b)
}

// SetWriteDeadline implements net.Conn. A deadline that Write has set stays if it would be removed, or
// is later by no more than the slack: net/http does the one after each request, and both around
// each write over HTTP/2.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if until := time.Duration(c.until.Load()); until > 0 {
		if late := until - t.Sub(c.of.epoch); t.IsZero() || late >= 0 && late <= c.slack() {
			return nil
		}
	}
	c.until.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.until.Store(0)
	c.reads.Reset(t)
	return c.Conn.SetDeadline(t)
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) { return c.reads.Read(c.Conn, b) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.reads.Set(c.Conn, t) }

// NetConn returns the connection within.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection, at once or after it has lingered.
func (c *conn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	if c.lingers.Swap(false) {
		go c.linger()
		return nil
	}
	return c.Conn.Close()
}

// The time for which a connection lingers, and the silence that ends it earlier.
const (
	lingerTime    = 30 * time.Second
	lingerSilence = 2 * time.Second
)

// Linger lets the connection of a client linger when it is closed.
func (c *Client) Linger() {
	if c.conn != nil && c.lingers {
		c.conn.lingers.Store(true)
	}
}

// linger reads what the client still sends of a request that has its complete answer, and then closes the connection. If
// the kernel reset it meanwhile, a client that sends all first would miss the answer (RFC 9112, section 9.6).
func (c *conn) linger() {
	defer c.Conn.Close()
	var buf [4 << 10]byte
	for began := time.Now(); time.Since(began) < lingerTime; {
		_ = c.Conn.SetReadDeadline(time.Now().Add(lingerSilence))
		if _, err := c.Conn.Read(buf[:]); err != nil {
			return
		}
	}
}
