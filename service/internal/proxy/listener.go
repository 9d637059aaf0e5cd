package proxy

import (
	"net"
	"sync"
	"time"
)

// Listener bounds the time of each write by Config.ClientTimeout, so that a client
// that does not read does not hold a permit.
//
// It replaces http.Server's WriteTimeout, which bounds a whole response and so
// cuts off long streams.
func (p *Proxy) Listener(ln net.Listener) net.Listener { return listener{ln, p} }

type listener struct {
	net.Listener
	proxy *Proxy
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.proxy.connections.Add(1)
	return &conn{Conn: c, proxy: l.proxy}, nil
}

type conn struct {
	net.Conn
	proxy *Proxy
	once  sync.Once // counts the first Close
}

func (c *conn) Write(b []byte) (int, error) {
	if timeout := c.proxy.cfg.ClientTimeout; timeout > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

// NetConn returns the connection within.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Close() error {
	c.once.Do(func() { c.proxy.connections.Add(-1) })
	return c.Conn.Close()
}
