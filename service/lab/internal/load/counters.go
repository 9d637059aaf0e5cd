package load

import (
	"context"
	"net"
	"sync/atomic"
)

// Counters counts a run while it goes on. It is safe for concurrent use.
type Counters struct {
	Started, Ended atomic.Int64 // requests sent, and those of them that have ended
	Connections    atomic.Int64 // made
	// Sent and Received are the bytes of all connections: with TLS as encrypted, and with
	// the headers of HTTP.
	Sent, Received atomic.Int64
}

// dial counts the connections of another dial, and their bytes.
func (c *Counters) dial(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.Connections.Add(1)
		return countedConn{conn, c}, nil
	}
}

type countedConn struct {
	net.Conn
	counters *Counters
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counters.Received.Add(int64(n))
	return n, err
}

func (c countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.counters.Sent.Add(int64(n))
	return n, err
}
